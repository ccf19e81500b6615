"""One self-contained HTML page of designs, what was simulated on them, and comparisons."""

from .charts import MAX_SERIES
from .content import Compared, Report, Served, Shown, make_report, serve
from .page import report_text

__all__ = ["MAX_SERIES", "Compared", "Report", "Served", "Shown", "make_report", "report_text", "serve"]
