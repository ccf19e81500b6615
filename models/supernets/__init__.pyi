from .catalogue import (
    SUPERNETS as SUPERNETS,
    Family as Family,
    find_subnet as find_subnet,
    load_family as load_family,
)
from .layout import subnet_file as subnet_file
from .listing import (
    SubNetSize as SubNetSize,
    Listing as Listing,
    list_subnets as list_subnets,
    pick as pick,
    subnets_text as subnets_text,
)
from .schema import SubNet as SubNet, SubNetsFile as SubNetsFile, SuperNetFile as SuperNetFile
from .sharing import (
    Extents as Extents,
    Slot as Slot,
    extents_of as extents_of,
    shared as shared,
    slots_of as slots_of,
)
from .space import draw as draw, full as full, nearest as nearest, parse_subnet as parse_subnet
