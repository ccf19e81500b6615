"""One self-contained HTML page of designs, what was simulated on them, and comparisons; needs no extra."""

from .chart import MAX_SERIES
from .content import Compared, Entry, Served, Shown, read_entry, serve
from .page import report_text

__all__ = ["MAX_SERIES", "Compared", "Entry", "Served", "Shown", "read_entry", "report_text", "serve"]
