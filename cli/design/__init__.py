"""Commands of design time, and of what is designed for: networks and boards."""
