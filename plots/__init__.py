"""Pictures, one in each file, and the report; they need the extra ``[plot]``."""

from .canvas import COLOURS, canvas, check_picture, describe, inches, legible, picture_bytes, save

__all__ = [
    "COLOURS",
    "canvas",
    "check_picture",
    "describe",
    "inches",
    "legible",
    "picture_bytes",
    "save",
]
