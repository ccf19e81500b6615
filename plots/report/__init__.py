"""One self-contained HTML page of designs, of policies that were simulated on them, and of comparisons."""

from .charts import MAX_SERIES
from .conclusion import verdict_lines
from .content import Report, ReportEntry, make_report
from .page import report_text

__all__ = [
    "MAX_SERIES",
    "Report",
    "ReportEntry",
    "make_report",
    "report_text",
    "verdict_lines",
]
