"""Commands for your own networks and platforms."""
