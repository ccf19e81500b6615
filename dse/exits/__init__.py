"""Search of exits and thresholds (PAME)."""
