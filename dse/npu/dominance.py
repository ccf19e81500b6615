"""Rows that other rows beat, compiled.  A table has three columns, in which less is better; it is ordered by the first.

The rows so far are a staircase in the other two, (x, y): x rises, y falls, and what another row matches or beats in
both is left out.
"""

import numpy as np

from .kernels import formula, kernel


@formula
def step_of(x, count, value):
    """The number of steps whose x is not larger."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if x[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@formula
def add(x, y, count, row):
    """Add a row to the staircase, unless a step matches or beats it; returns the number of steps."""
    at = step_of(x, count, row[1])
    if at > 0 and y[at - 1] <= row[2]:
        return count
    if at > 0 and x[at - 1] == row[1]:
        at -= 1
    end = at  # of the steps that it matches or beats
    while end < count and y[end] >= row[2]:
        end += 1
    moved = 1 - (end - at)
    if moved > 0:
        for i in range(count - 1, end - 1, -1):
            x[i + 1], y[i + 1] = x[i], y[i]
    elif moved < 0:
        for i in range(end, count):
            x[i + moved], y[i + moved] = x[i], y[i]
    x[at], y[at] = row[1], row[2]
    return count + moved


@kernel
def mark_undominated(table):
    """Mark the rows of a table, ordered by all columns, that no row before them equals or beats in every column."""
    x, y = np.empty(len(table)), np.empty(len(table))
    kept, count = np.zeros(len(table), np.bool_), 0
    for i in range(len(table)):
        at = step_of(x, count, table[i, 1])
        if at == 0 or y[at - 1] > table[i, 2]:
            kept[i], count = True, add(x, y, count, table[i])
    return kept


@kernel
def mark_beaten(front, table):
    """Mark the rows of a table that a row of a front beats: as good in all, and better in the second or third."""
    x, y = np.empty(len(front)), np.empty(len(front))
    beaten, count, row = np.zeros(len(table), np.bool_), 0, 0
    for i in range(len(table)):
        while row < len(front) and front[row, 0] <= table[i, 0]:
            count = add(x, y, count, front[row])
            row += 1
        at = step_of(x, count, table[i, 1])
        if at > 0:
            least, nearest = y[at - 1], x[at - 1]
            beaten[i] = least < table[i, 2] or (least == table[i, 2] and nearest < table[i, 1])
    return beaten
