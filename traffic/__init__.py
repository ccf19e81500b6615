"""Requests with their arrivals, exits and objectives; made, read, drawn and changed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
