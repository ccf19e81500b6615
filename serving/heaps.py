"""Heaps of numbers that are ordered by keys, and of equal keys by the numbers; compiled."""

from ..jit import compiled


@compiled(lean=True)
def push(heap, size, keys, number):
    """Add a number to a heap that is ordered by keys, then numbers."""
    k = size
    while k > 0:
        up = (k - 1) // 2
        above = heap[up]
        if keys[above] < keys[number] or (keys[above] == keys[number] and above < number):
            break
        heap[k] = above
        k = up
    heap[k] = number


@compiled(lean=True)
def pop(heap, size, keys):
    """Take the first number from a heap."""
    first, number, k = heap[0], heap[size - 1], 0
    while 2 * k + 1 < size - 1:
        low = 2 * k + 1
        if low + 1 < size - 1:
            one, other = heap[low], heap[low + 1]
            if keys[other] < keys[one] or (keys[other] == keys[one] and other < one):
                low += 1
        below = heap[low]
        if keys[number] < keys[below] or (keys[number] == keys[below] and number < below):
            break
        heap[k] = below
        k = low
    heap[k] = number
    return first
