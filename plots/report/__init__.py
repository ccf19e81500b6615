"""One self-contained HTML page of designs, what was simulated on them, and comparisons."""

from .charts import MAX_SERIES
from .content import ComparisonFolder, PolicyReplay, Report, ReportEntry, make_report, serve
from .page import report_text

__all__ = [
    "MAX_SERIES",
    "ComparisonFolder",
    "PolicyReplay",
    "Report",
    "ReportEntry",
    "make_report",
    "report_text",
    "serve",
]
