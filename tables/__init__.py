"""Tables on disk that design time makes for run time, and run time for design time."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
