"""Search of an NPU on a board."""
