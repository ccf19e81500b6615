"""The searches of `fluidb dse`, one module for each kind of platform, with the text they print."""
