"""Commands of a real device."""
