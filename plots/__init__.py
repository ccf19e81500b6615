"""Pictures of tables that other storeys made: one file a picture.  All but ``report`` need the extra ``[plot]``."""

from .canvas import COLOURS, canvas, check_picture, describe, durations, legible, picture_bytes, round_ticks, save

__all__ = [
    "COLOURS",
    "canvas",
    "check_picture",
    "describe",
    "durations",
    "legible",
    "picture_bytes",
    "round_ticks",
    "save",
]
