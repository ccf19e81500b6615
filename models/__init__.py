"""Networks, their exits and heads, and their lowering to matrix products."""

from .loader import NETWORKS, load_network
from .network import MAX_WORK, Exit, Gemm, Layer, Network, Shape

__all__ = ["MAX_WORK", "NETWORKS", "Exit", "Gemm", "Layer", "Network", "Shape", "load_network"]
