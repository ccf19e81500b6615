"""Networks of 16-bit integers, as the engine computes them, and how a trained network becomes one."""
