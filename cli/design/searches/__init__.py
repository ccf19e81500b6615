"""How `fluidb dse` searches: one module for each kind of platform, and what it prints."""
