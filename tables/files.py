"""Files of tables in the folder of a design or a device."""

from __future__ import annotations

LATENCY_FILE, DESIGN_FILE, FBCB_FILE = "latency.json", "design.json", "fbcb.json"
SUBGRAPHS_FILE, PARTITION_FILE, EXITS_FILE = "subgraphs.json", "partition.json", "exits.json"
TABLE_FILES = LATENCY_FILE, DESIGN_FILE, FBCB_FILE, SUBGRAPHS_FILE, PARTITION_FILE, EXITS_FILE
MADE_FROM = {
    "fluidb.design/4": (DESIGN_FILE, "fluidb dse"),
    "fluidb.fbcb/2": (FBCB_FILE, "fluidb dse"),
    "fluidb.subgraphs/1": (SUBGRAPHS_FILE, "fluidb dse"),
    "fluidb.partition/1": (PARTITION_FILE, "fluidb dse"),
    "fluidb.exits/1": (EXITS_FILE, "fluidb exits"),
}
"""Tables that a latency table may be made from: the file beside it, and the command that writes it."""
