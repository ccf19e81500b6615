"""Tables of a device, for which nothing is searched."""
