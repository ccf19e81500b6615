"""Networks, their exits and heads, and their lowering to matrix products."""

from .loader import NETWORKS, as_network, load_network
from .network import MAX_WORK, Exit, Gemm, Layer, Network, Shape

__all__ = ["MAX_WORK", "NETWORKS", "Exit", "Gemm", "Layer", "Network", "Shape", "as_network", "load_network"]
