from .catalogue import SUPERNETS as SUPERNETS, Family as Family, load_family as load_family
from .listing import list_subnets as list_subnets, pick as pick, subnets_text as subnets_text
from .schema import SubNetsFile as SubNetsFile
