"""Studies: one simulation, thresholds, capacity, co-design, comparison; and where they run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
