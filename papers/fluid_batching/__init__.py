"""What the Fluid Batching paper prints, and our figures beside it (``fluidb reproduce``)."""

from .items import ITEMS, reproduce
from .lab import Lab
from .report import check_results, content, write_results
from .rows import Claim, Item, Row

__all__ = ["ITEMS", "Claim", "Item", "Lab", "Row", "check_results", "content", "reproduce", "write_results"]
