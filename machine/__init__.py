"""The real device: measuring it, serving on it in real time, validating the simulator against it."""
