"""A slow oracle for SuperNets and for an accelerator with a persistent buffer: plain loops, integers, fractions.

Written from the SUSHI paper (Sections 2.1, 3 and 4, Appendix A.4) and the layout of once-for-all's SuperNets, and from
these alone.  It shares no code with the package it is compared with.

A layer is a dict of K, C, R, Q, inputs, outputs, depthwise; a SubNet is a list of layers, ``None`` where it lacks one.
"""

from fractions import Fraction
from math import sqrt


def divisible(v):
    """Channels as once-for-all rounds them."""
    n = max(8, int(v + 4) // 8 * 8)
    return n + 8 if n < 0.9 * v else n


def layer(K, C, R, side_in, side_out, c_in, depthwise=False):
    return {
        "K": K, "C": C, "R": R, "Q": side_out**2, "inputs": c_in * side_in**2, "outputs": K * side_out**2,
        "depthwise": depthwise,
    }  # fmt: skip


def dense(K, C, R, side_in, side_out):
    return layer(K, C, R, side_in, side_out, C)


def ofa_resnet50(d, e, w):
    """All 62 layers with weights, ``None`` for layers of absent blocks."""
    mid, width = divisible(int(divisible(64 * w[0]) / 2)), divisible(64 * w[1])
    half = 112
    found = [dense(mid, 3, 3, 224, half)]
    found.append(dense(mid, mid, 3, half, half) if d[0] == 2 else None)
    found.append(dense(width, mid, 3, half, half))
    size, slot = (half + 1) // 2, 0
    for stage in range(4):
        out = divisible([256, 512, 1024, 2048][stage] * w[2 + stage])
        base = [2, 2, 4, 2][stage]
        for block in range(base + 2):
            middle = divisible(round(out * e[slot]))
            slot += 1
            here = block < base + d[1 + stage]
            after = (size + 1) // 2 if stage > 0 and block == 0 else size
            if block == 0:
                found.append(dense(out, width, 1, after, after))
            found.append(dense(middle, width, 1, size, size) if here else None)
            found.append(dense(middle, middle, 3, size, after) if here else None)
            found.append(dense(out, middle, 1, after, after) if here else None)
            if here:
                size, width = after, out
    found.append(dense(1000, width, 1, 1, 1))
    return found


def ofa_mobilenet_v3(d, e, k, side=224, counted=False):
    """All 90 layers with weights, or the 65 of the paper's sizes."""
    size = (side + 1) // 2
    found = [dense(16, 3, 3, side, size), layer(16, 1, 3, size, size, 16, depthwise=True), dense(16, 16, 1, size, size)]
    width = 16
    for stage in range(5):
        out = [24, 40, 80, 112, 160][stage]
        for block in range(4):
            middle = divisible(round(width * e))
            here = block < d
            after = (size + 1) // 2 if block == 0 and stage != 3 else size
            part = [dense(middle, width, 1, size, size), layer(middle, 1, k, size, after, middle, depthwise=True)]
            if stage in (1, 3, 4) and not counted:
                part += [dense(divisible(middle // 4), middle, 1, 1, 1), dense(middle, divisible(middle // 4), 1, 1, 1)]
            part.append(dense(out, middle, 1, after, after))
            found += part if here else [None] * len(part)
            if here:
                size, width = after, out
    if not counted:
        found.append(dense(960, 160, 1, size, size))
    return [*found, dense(1280, 960, 1, 1, 1), dense(1000, 1280, 1, 1, 1)]


def weights(layer):
    return layer["K"] * layer["C"] * layer["R"] ** 2 if layer else 0


def indices(layers, largest):
    """Every weight of a SubNet by its place in the SuperNet: layer, kernel, channel, row and column."""
    found = set()
    for number, (one, whole) in enumerate(zip(layers, largest, strict=True)):
        if one is None:
            continue
        first = (whole["R"] - one["R"]) // 2
        for kernel in range(one["K"]):
            for channel in range(one["C"]):
                for row in range(first, first + one["R"]):
                    for column in range(first, first + one["R"]):
                        found.add((number, kernel, channel, row, column))
    return found


def up(a, b):
    return -(-a // b)


def cycles(layer, K_P, C_P, full):
    """Section 4.2.1."""
    if layer is None:
        return 0
    windows = up(layer["R"] ** 2, 9)
    if layer["depthwise"]:
        return up(layer["K"], K_P * C_P if full else K_P) * windows * layer["Q"]
    if layer["R"] == 1:
        return up(layer["K"], K_P) * up(layer["C"], 9 * C_P) * layer["Q"]
    return up(layer["K"], K_P) * up(layer["C"], C_P) * windows * layer["Q"]


def map_bytes(layers, streaming, policy):
    """Bytes of maps that each layer moves, a byte a value."""
    found, first = [], True
    for one in layers:
        moved = 0
        if one is not None and policy != "none":
            if policy == "all" or (policy == "spilled" and one["inputs"] > streaming) or first:
                moved += one["inputs"]
            if policy == "all" or one["outputs"] > streaming:
                moved += one["outputs"]
            first = False
        found.append(moved)
    return found


def resident(one, box):
    """Weights of a layer that a SubGraph's K, C, R of it hold."""
    if one is None:
        return 0
    return min(one["K"], box[0]) * min(one["C"], box[1]) * min(one["R"], box[2]) ** 2


def time_s(layers, graph, K_P, C_P, full, clock_hz, bytes_per_s, streaming, policy):
    """T_PB: the sum over layers of the longer of computing and moving, as a fraction."""
    total = Fraction(0)
    for one, box, maps in zip(layers, graph, map_bytes(layers, streaming, policy), strict=True):
        moved = weights(one) + maps - resident(one, box)
        total += max(Fraction(cycles(one, K_P, C_P, full), clock_hz), Fraction(moved, bytes_per_s))
    return total


def used(layers, graph):
    return sum(resident(one, box) for one, box in zip(layers, graph, strict=True))


def hit_ratio(layers, graph):
    """Appendix A.4, over the layers that both have a part of."""
    both = whole = 0
    for one, box in zip(layers, graph, strict=True):
        if one is None:
            continue
        whole += one["K"] ** 2 + one["C"] ** 2
        if resident(one, box):
            both += min(one["K"], box[0]) ** 2 + min(one["C"], box[1]) ** 2
    return sqrt(both) / sqrt(whole)


def shared_box(members):
    """K, C, R of what SubNets share, by layer."""
    found = []
    for column in zip(*members, strict=True):
        if any(one is None for one in column):
            found.append((0, 0, 0))
        else:
            found.append(tuple(min(one[key] for one in column) for key in "KCR"))
    return found


def cut_in_order(graph, order, budget):
    """Whole layers in this order; the first that does not fit loses kernels, later ones everything."""
    found, left = [(0, 0, 0)] * len(graph), budget
    for number in order:
        K, C, R = graph[number]
        each = C * R**2
        kernels = min(K, left // each) if each else 0
        if kernels:
            found[number] = (kernels, C, R)
        if kernels < K:
            break
        left -= K * each
    return found


def cut_uniformly(graph, budget):
    """The largest share s for which floor(s K) kernels of every layer fit."""
    if sum(K * C * R**2 for K, C, R in graph) <= budget:
        return [tuple(box) for box in graph]
    best = [(0, 0, 0)] * len(graph)
    for share in sorted({Fraction(n, K) for K, _, _ in graph for n in range(1, K)}):
        cut = [(K * share.numerator // share.denominator, C, R) for K, C, R in graph]
        if sum(K * C * R**2 for K, C, R in cut) <= budget:
            best = [box if box[0] else (0, 0, 0) for box in cut]
    return best
