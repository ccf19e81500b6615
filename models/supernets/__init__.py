"""SuperNets: networks that share their weights, and the SubNets that they consist of (paper 003, Section 2.1)."""

from .catalogue import SUPERNETS, Family, find_subnet, load_family
from .layout import subnet_file
from .listing import Listed, Listing, list_subnets, pick, subnets_text
from .schema import SubNet, SubNetsFile, SuperNetFile
from .sharing import Extents, Slot, extents_of, shared, slots_of
from .space import draw, full, nearest, parse_subnet

__all__ = [
    "SUPERNETS",
    "Extents",
    "Family",
    "Listed",
    "Listing",
    "Slot",
    "SubNet",
    "SubNetsFile",
    "SuperNetFile",
    "draw",
    "extents_of",
    "find_subnet",
    "full",
    "list_subnets",
    "load_family",
    "nearest",
    "parse_subnet",
    "pick",
    "shared",
    "slots_of",
    "subnet_file",
    "subnets_text",
]
