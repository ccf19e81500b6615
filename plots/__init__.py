"""Pictures of tables that other storeys made: one file a picture; needs the extra ``[plot]``."""

from .canvas import COLOURS, canvas, check_picture, legible, save

__all__ = ["COLOURS", "canvas", "check_picture", "legible", "save"]
