"""Run time: policies, the event loop that runs them, and what it all amounts to."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
