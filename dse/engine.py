"""Numbers of the engine that the cost model, networks of integers and the RTL share."""

MOST = 2**16 - 1
"""The engine counts at most so many columns of a group, rows of a block, and rows and columns of a map."""

SUM_BITS = 48
"""Bits of a sum; a shift is smaller."""
