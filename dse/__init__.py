"""Design time: the cost model, the search, and the tables it leaves for the hardware and the scheduler."""

if __name__ != "fluidb.dse":
    # compiled functions are kept by the names of their modules: under a second name all would be compiled again
    raise ImportError(f"import this package as fluidb.dse, not as {__name__}")

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
