"""Studies that search and simulate many times: comparison, capacity, co-design, thresholds; and where they run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
