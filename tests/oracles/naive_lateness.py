"""Late requests of a run that stopped at a time, by one expression."""

import numpy as np


def surely_late(arrival_s, finish_s, longer_than_s, until_s):
    """Requests that took longer than a time each; of those without an answer, the ones that were due until then."""
    due_s = arrival_s + longer_than_s
    return int(((finish_s > due_s) & (np.isfinite(finish_s) | (due_s <= until_s))).sum())
