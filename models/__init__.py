"""What runs: networks, their exits and heads, and their lowering to matrix products."""

from .loader import NETWORKS, load_network
from .network import Exit, Gemm, Layer, Network, Shape

__all__ = ["NETWORKS", "Exit", "Gemm", "Layer", "Network", "Shape", "load_network"]
