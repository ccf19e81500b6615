"""Commands of design time."""
