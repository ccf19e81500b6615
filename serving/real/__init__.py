"""Serving in steps on a clock that is given: real time on a real network, or a virtual clock (``docs/real-device.md``).

The decisions, and all that the event loop knows of batches, are those of the simulator: the same compiled functions.
"""
