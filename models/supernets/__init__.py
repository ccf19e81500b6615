"""SuperNets: networks that share their weights, and their SubNets (SUSHI, Section 2.1)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
