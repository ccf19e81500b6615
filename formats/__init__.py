"""Reading and writing of files: faults, quantities, TOML, tables, whole writes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
