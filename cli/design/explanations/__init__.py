"""What `fluidb explain` says of a folder: one module for each kind of folder."""
