"""The compiled part of a calibration: the constants beside each ratio of both rates, within their bounds.

The four constants are the slowdown of computing, the same times the share that is not hidden, and both fixed times.
Each lies inside of its bounds or on one.  A case is one choice of these, where the constants are ``start + least *
slope`` and any multiple of the first ``widths`` columns of ``basis``; ``least`` is the least slowdown.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...jit import compiled

EDGE = 0.05
"""Errors below count by their square, larger ones by their size: a few gross errors do not move the constants."""

DEPENDENT = 1e-12
"""Share of its square that is left of a column that depends on others."""

AIM, BEST, TRIED, TURNED = range(4, 8)
"""Columns of the space behind the products: the aim's, the best constants, the ones that are tried, free columns."""

NEAR = 1e-9
"""Share by which a constant may be outside of its bounds."""


class Cases(NamedTuple):
    """The N choices of bounds."""

    basis: Any  # (N, 4, 4)
    widths: Any  # (N,), how many columns of it are free
    start: Any  # (N, 4)
    slope: Any  # (N, 4)


def nearest(columns, counts, least, cases, rounds, same):
    """The constants of least loss by ratio (G, 4), and their losses, from columns (G, R, 4) of shares."""
    constants, losses = np.zeros((len(columns), 4)), np.full(len(columns), np.inf)
    follow(columns, counts, least, cases, rounds, same, (constants, losses, np.empty(len(counts)), np.zeros((4, 11))))
    return constants, losses


@compiled(lean=True)
def follow(columns, counts, least, cases, rounds, same, into):
    """Least squares, repeated with the weights that the loss of the last gives."""
    constants, losses, weights, space = into
    for at in range(len(columns)):
        for row in range(len(counts)):
            weights[row] = counts[row]
        for _ in range(rounds):
            gather(columns, at, weights, space)
            within(space, least[at], cases)
            loss = weigh(columns, at, counts, space, weights)
            if loss >= losses[at] * (1 - same):
                break
            losses[at] = loss
            for i in range(4):
                constants[at, i] = space[i, BEST]


@compiled(lean=True)
def gather(columns, at, weights, space):
    """The products of the weighted columns with each other and with the aim, which is 1."""
    for i in range(4):
        for j in range(5):
            space[i, j] = 0.0
    for row in range(len(weights)):
        for i in range(4):
            weighted = weights[row] * columns[at, row, i]
            space[i, AIM] += weighted
            for j in range(4):
                space[i, j] += weighted * columns[at, row, j]


@compiled(lean=True)
def weigh(columns, at, counts, space, weights):
    """Huber's loss of the logarithms of predicted over measured times, and the weights with which squares follow it."""
    total = 0.0
    for row in range(len(counts)):
        share = 0.0
        for i in range(4):
            share += columns[at, row, i] * space[i, BEST]
        log = np.log(max(share, 1e-300))
        size = abs(log)
        total += counts[row] * (size * size / (2 * EDGE) if size < EDGE else size - EDGE / 2)
        slope = log / (share - 1) if share != 1 else 1.0
        weights[row] = counts[row] * slope / (max(share, 1e-300) * max(size, EDGE))
    return total


@compiled(lean=True)
def within(space, least, cases):
    """The constants of least squares within their bounds: every case is a linear problem."""
    lowest = np.inf
    for case in range(len(cases.widths)):
        for i in range(4):
            space[i, TRIED] = cases.start[case, i] + least * cases.slope[case, i]
        solve(space, cases.basis, case, cases.widths[case])
        u, part = space[0, TRIED], space[1, TRIED]
        inside = u >= least * (1 - NEAR) and 0 <= part <= u * (1 + NEAR)
        if not inside or space[2, TRIED] < 0 or space[3, TRIED] < 0:
            continue
        error = 0.0
        for i in range(4):
            error -= 2 * space[i, AIM] * space[i, TRIED]
            for j in range(4):
                error += space[i, TRIED] * space[i, j] * space[j, TRIED]
        if error < lowest:
            lowest = error
            for i in range(4):
                space[i, BEST] = space[i, TRIED]
        if case == 0:
            break  # no bound binds


@compiled(lean=True)
def solve(space, basis, case, width):
    """Add the best multiples of the free columns to the constants that are tried.

    The columns are turned one after the other, so that each is independent of the ones before in the product with
    which errors are weighed (Gram and Schmidt); one that depends on these is left out.
    """
    for k in range(width):
        own = TURNED + k
        for i in range(4):
            space[i, own] = basis[case, i, k]
        before = between(space, own, own)
        for other in range(TURNED, own):
            size = between(space, other, other)
            share = between(space, other, own) / size if size > 0 else 0.0
            for i in range(4):
                space[i, own] -= share * space[i, other]
        size = between(space, own, own)
        if size <= DEPENDENT * before:
            for i in range(4):
                space[i, own] = 0.0
            continue
        step = -between(space, own, TRIED)
        for i in range(4):
            step += space[i, own] * space[i, AIM]
        for i in range(4):
            space[i, TRIED] += step / size * space[i, own]


@compiled(lean=True)
def between(space, one, other):
    """The product of two columns with which errors are weighed."""
    total = 0.0
    for i in range(4):
        for j in range(4):
            total += space[i, one] * space[i, j] * space[j, other]
    return total
