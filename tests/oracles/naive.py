"""A slow oracle for the NPU cost model: plain loops, integers, no caching.

Written from the Fluid Batching paper (Section II-C, Section III-A, Equations 1 and 2) and the formulas that make its
published designs come out, and from these alone.  It shares no code with the package it is compared with: nothing is
imported from there and nothing was copied from there.

A GEMM is (R, P, C, count), a design or tile is (T_R, T_P, T_C), a design with 1 behind them: one row at a time.
Traffic is in off-chip words, time in clock cycles.
"""

from collections.abc import Sequence
from fractions import Fraction

Gemm = tuple[int, int, int, int]
Tile = tuple[int, ...]

STACKS = ("1", "2", "1/2")
MODES = ("fluid", "row", "column", "eq1", "none", "fc")
TIE = 1e-12


def ceil_div(a: int, b: int) -> int:
    """Quotient of two integers, rounded up."""
    return -(-a // b)


def fits(on_chip_bits: int, word_bits: int, T_R: int, T_P: int, T_C: int) -> bool:
    """Tell if the three double-buffered tiles fit on chip."""
    return 2 * word_bits * (T_R * T_P + T_P * T_C + T_R * T_C) <= on_chip_bits


def largest_rows(on_chip_bits: int, word_bits: int, T_P: int, T_C: int) -> int:
    """Largest even T_R that fits, 0 if none; steps double while they fit, and then start over from 2."""
    rows = 0
    while fits(on_chip_bits, word_bits, rows + 2, T_P, T_C):
        step = 2
        while fits(on_chip_bits, word_bits, rows + step, T_P, T_C):
            rows += step
            step *= 2
    assert rows == 0 or fits(on_chip_bits, word_bits, rows, T_P, T_C)
    assert not fits(on_chip_bits, word_bits, rows + 2, T_P, T_C)
    return rows


def all_designs(dsps: int, on_chip_bits: int, word_bits: int, every_row: bool = False) -> list[Tile]:
    """All (T_R, T_P, T_C, 1, 0) within the board; T_R is the largest even one, or with `every_row` every even one."""
    designs: list[Tile] = []
    for T_P in range(1, dsps + 1):
        for T_C in range(1, dsps + 1):
            if dsps < T_P * T_C:
                break
            most = largest_rows(on_chip_bits, word_bits, T_P, T_C)
            if every_row:
                designs += [(T_R, T_P, T_C, 1, 0) for T_R in range(2, most + 1, 2)]
            elif most >= 2:
                designs.append((most, T_P, T_C, 1, 0))
    return designs


def stack(tile: Tile, k: str) -> Tile | None:
    """Shape of the array under stacking `k`, None if a dimension would become 0."""
    T_R, T_P, T_C = tile[:3]
    if k == "1":
        tile = (T_R, T_P, T_C)
    elif k == "2":
        tile = (T_R // 2, 2 * T_P, T_C // 2)
    elif k == "1/2":
        tile = (T_R // 2, T_P // 2, 2 * T_C)
    else:
        raise ValueError(f"unknown stacking {k!r}")
    return None if 0 in tile else tile


def layer_cost(
    gemm: Gemm, tile: Tile, k: str, b: int, B_R: int, words_per_cycle: float, mode: str, stays: float = 0
) -> tuple[float, float] | None:
    """Cycles and off-chip words of one layer for `b` samples, None if `k` is not possible.

    Parameters
    ----------
    gemm : (R, P, C, count)
    tile : (T_R, T_P, T_C) before stacking
    k : "1", "2" or "1/2"
    b, B_R : active samples, and how many of them go down the rows; "none" ignores `B_R`, and so does "fc"
    words_per_cycle : off-chip bandwidth
    mode : one of `MODES`
    stays : share of the weights that is on the chip already and not read from outside
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}")
    R, P, C, count = gemm
    if mode == "none" or (mode == "fc" and R != 1):  # one sample after the other
        single = layer_cost(gemm, tile, k, 1, 1, words_per_cycle, "row", stays)
        return None if single is None else (b * single[0], b * single[1])
    if mode == "fc":
        B_R = b
    stacked = stack(tile, k)
    if stacked is None:
        return None
    T_R, T_P, T_C = stacked
    if mode == "eq1":  # Equation (1) to the letter, with the T_P in force after stacking
        P_hat = (b - B_R + 1) * (P + P % T_P)
        compute = B_R * R * ceil_div(P_hat, T_P) * ceil_div(C, T_C)
    else:
        B_P = ceil_div(b, B_R)
        compute = B_R * R * ceil_div(P, T_P) * ceil_div(B_P * C, T_C)
    read_inputs = b * R * P * ceil_div(C, T_C)
    read_weights = P * C * ceil_div(B_R * R, T_R)
    written = b * R * C
    words = read_inputs + read_weights + written - (stays * read_weights if stays else 0)
    return float(count * max(compute, words / words_per_cycle)), count * words


def words_by_tiles(gemm: Gemm, tile: Tile, k: str, b: int, B_R: int, mode: str, stays: float = 0) -> float:
    """Words of one layer, counted in a walk over its tiles; `tile` is before stacking.

    Sample q*B_R + n stands at place n of the rows and q of the columns.  The samples that a tile of columns touches
    share the rows of the input buffer.
    """
    R, P, C, count = gemm
    if mode == "none" or (mode == "fc" and R != 1):
        return b * words_by_tiles(gemm, tile, k, 1, 1, "row", stays)
    if mode == "fc":
        B_R = b
    stacked = stack(tile, k)
    assert stacked is not None
    T_R, T_P, T_C = stacked
    columns = [(q, c) for q in range(ceil_div(b, B_R)) for c in range(C)]
    tiles = [columns[start : start + T_C] for start in range(0, len(columns), T_C)]
    rows = max(1, T_R // max(len({q for q, _ in part}) for part in tiles))
    read_inputs = read_weights = written = 0
    for part in tiles:
        for top in range(0, B_R * R, rows):
            block = range(top, min(top + rows, B_R * R))
            held = {q: sum(q * B_R + row // R < b for row in block) for q in {q for q, _ in part}}
            samples, outputs = sum(held.values()), len({c for _, c in part})
            for begin in range(0, P, T_P):
                depth = min(T_P, P - begin)
                read_inputs += depth * samples
                read_weights += depth * outputs
            written += sum(held[q] for q, _ in part)
    return count * (read_inputs + read_weights + written - (stays * read_weights if stays else 0))


def choices(mode: str, b: int, R: int) -> list[int]:
    """The B_R that `mode` may choose from for `b` samples of a layer of `R` rows."""
    if mode in ("fluid", "eq1"):
        return list(range(1, b + 1))
    if mode == "row":
        return [b]
    if mode in ("none", "column"):
        return [1]
    if mode == "fc":
        return [b] if R == 1 else [1]
    raise ValueError(f"unknown mode {mode!r}")


def best(
    gemm: Gemm, tile: Tile, b: int, words_per_cycle: float, mode: str, stacking: bool, stays: float = 0
) -> tuple[float, float, str, int]:
    """(cycles, words, k, B_R) of fewest cycles, then fewest words by tiles, then first `STACKS`, then smallest B_R.

    On equal cycles, of the B_R with equal B_P only the smallest counts.
    """
    found: tuple[float, float, str, int] | None = None
    least = float("inf")
    for k in STACKS if stacking else ("1",):
        for B_R in choices(mode, b, gemm[0]):
            cost = layer_cost(gemm, tile, k, b, B_R, words_per_cycle, mode, stays)
            if cost is None:
                continue
            cycles, words = cost
            larger = mode == "fluid" and any(ceil_div(b, less) == ceil_div(b, B_R) for less in range(1, B_R))
            if found is not None and (cycles > found[0] or (cycles == found[0] and larger)):
                continue
            moved = words if mode == "eq1" else words_by_tiles(gemm, tile, k, b, B_R, mode, stays)
            if found is None or cycles < found[0] or moved < least:
                found, least = (cycles, words, k, B_R), moved
    assert found is not None  # k = 1 is always possible
    return found


def network_cycles(
    gemms: Sequence[Gemm], memory_words: int, tile: Tile, b: int, words_per_cycle: float, mode: str, stacking: bool
) -> float:
    """Cycles of all layers for `b` samples, plus the traffic of the memory-only layers (`memory_words` a sample)."""
    cycles = 0.0
    for gemm in gemms:
        cycles += best(gemm, tile, b, words_per_cycle, mode, stacking)[0]
    return cycles + b * memory_words / words_per_cycle


def buffer_accesses(gemm: Gemm, tile: Tile, b: int, B_R: int, mode: str) -> int:
    """Words read from and written to on-chip buffers by one layer on an array already stacked.

    Walks the tiles: whatever comes from off chip is written to a buffer and read from it once; a sum is written after
    each tile along P, and read again either for the next tile or to leave the chip.
    """
    R, P, C, count = gemm
    if mode == "none" or (mode == "fc" and R != 1):
        return b * buffer_accesses(gemm, tile, 1, 1, "row")
    T_R, T_P, T_C = tile[:3]
    accesses = 0
    for _sample in range(b):
        for _column_tile in range(0, C, T_C):
            accesses += R * P + R * P  # inputs in, inputs to the processing elements
        for _depth_tile in range(0, P, T_P):
            accesses += R * C + R * C  # sums in, sums out
    for _row_tile in range(0, (b if mode == "fc" else B_R) * R, T_R):
        accesses += P * C + P * C  # weights in, weights to the processing elements
    return count * accesses


def energy(
    gemms: Sequence[Gemm],
    memory_words: int,
    tile: Tile,
    b: int,
    words_per_cycle: float,
    clock_hz: float,
    mode: str,
    stacking: bool,
    mac_pj: float,
    on_chip_pj: float,
    off_chip_pj: float,
    static_w: float,
    least: bool = False,
) -> float:
    """Joules of one inference in a batch of `b`, each layer laid out as `best` says, or with the least energy."""
    joules = b * memory_words * ((off_chip_pj + 2 * on_chip_pj) * 1e-12 + static_w / words_per_cycle / clock_hz)
    for gemm in gemms:
        R, P, C, count = gemm
        layouts = [best(gemm, tile, b, words_per_cycle, mode, stacking)]
        if least:
            tried = [(k, B_R) for k in (STACKS if stacking else ("1",)) for B_R in choices(mode, b, R)]
            costs = [layer_cost(gemm, tile, k, b, B_R, words_per_cycle, mode, 0) for k, B_R in tried]
            layouts = [(*cost, *layout) for cost, layout in zip(costs, tried, strict=True) if cost]
        of_layouts = []
        for time, words, k, B_R in layouts:
            stacked = stack(tile, k)
            assert stacked is not None
            picojoules = b * R * P * C * count * mac_pj + words * off_chip_pj
            picojoules += buffer_accesses(gemm, stacked, b, B_R, mode) * on_chip_pj
            of_layouts.append(picojoules * 1e-12 + static_w * time / clock_hz)
        joules += min(of_layouts)
    return joules / b


def front(points: Sequence[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """Points that no other matches or beats in every coordinate, less is better; equal ones once."""
    found = set()
    for one in set(points):
        if not any(other != one and all(o <= x for o, x in zip(other, one, strict=True)) for other in set(points)):
            found.add(one)
    return found


def objective(
    gemms: Sequence[Gemm],
    memory_words: int,
    tile: Tile,
    b_max: int,
    weights: Sequence[float],
    words_per_cycle: float,
    clock_hz: float,
    mode: str,
    stacking: bool,
) -> float:
    """Weighted mean over b = 1..b_max of the rate in GOP/s, Equation (2); `weights[b - 1]` is w_b."""
    macs = 0
    for R, P, C, count in gemms:
        macs += R * P * C * count
    total = 0.0
    for b in range(1, b_max + 1):
        seconds = network_cycles(gemms, memory_words, tile, b, words_per_cycle, mode, stacking) / clock_hz
        total += weights[b - 1] * (2 * macs * b / seconds / 1e9)
    return total / sum(weights)


def search(
    gemms: Sequence[Gemm],
    memory_words: int,
    dsps: int,
    on_chip_bits: int,
    word_bits: int,
    b_max: int,
    weights: Sequence[float],
    words_per_cycle: float,
    clock_hz: float,
    mode: str,
    stacking: bool,
    every_row: bool = False,
) -> tuple[Tile, float]:
    """Best design and its objective; of those within `TIE` of it, larger T_P*T_C, larger T_R, smaller T_P."""
    rated = []
    for tile in all_designs(dsps, on_chip_bits, word_bits, every_row):
        value = objective(gemms, memory_words, tile, b_max, weights, words_per_cycle, clock_hz, mode, stacking)
        rated.append((tile, value))
    if not rated:
        raise ValueError("no design fits the board")
    top = max(value for _, value in rated)
    tied = [(tile, value) for tile, value in rated if top - value <= TIE * abs(top)]
    return min(tied, key=lambda one: (-one[0][1] * one[0][2], -one[0][0], one[0][1]))


def layer_parts(
    gemm: Gemm, tile: Tile, k: str, b: int, B_R: int, words_per_cycle: float, mode: str
) -> list[Fraction] | None:
    """Parts of the cycles of :func:`layer_cost`, by counting multipliers; None if `k` is not possible.

    MACs; places of the batch's grid without a sample; idle along P; idle along C; multipliers that stacking leaves out;
    waiting for memory in any case; waiting because weights are read for fewer rows than fit.  All but the two waits are
    multiplier-cycles over the number of multipliers before stacking.
    """
    R, P, C, count = gemm
    if mode == "none" or (mode == "fc" and R != 1):
        single = layer_parts(gemm, tile, k, 1, 1, words_per_cycle, "row")
        return None if single is None else [b * part for part in single]
    if mode == "fc":
        B_R = b
    stacked = stack(tile, k)
    if stacked is None:
        return None
    T_R, T_P, T_C = stacked
    multipliers = tile[1] * tile[2]
    B_P = b - B_R + 1 if mode == "eq1" else ceil_div(b, B_R)
    # elements of the two dimensions that hold data, and the tiles that cover them and the guards of Equation (1)
    inner, columns = (B_P * P, C) if mode == "eq1" else (P, B_P * C)
    inner_tiles = ceil_div(B_P * (P + P % T_P), T_P) if mode == "eq1" else ceil_div(P, T_P)
    column_tiles = ceil_div(columns, T_C)
    idle_inner = idle_columns = 0
    for c in range(column_tiles):
        held = min(T_C, columns - c * T_C)
        idle_inner += (inner_tiles * T_P - inner) * held
        idle_columns += inner_tiles * T_P * (T_C - held)
    left_out = inner_tiles * column_tiles * (multipliers - T_P * T_C)
    compute = B_R * R * inner_tiles * column_tiles

    weights = P * C * ceil_div(B_R * R, T_R)
    others = b * R * P * ceil_div(C, T_C) + b * R * C
    rate = Fraction(words_per_cycle)
    wait = max(Fraction(0), (weights + others) / rate - compute)
    full_weights = Fraction(P * C * B_R * R, T_R)  # had every reading served T_R rows
    wait_anyway = max(Fraction(0), (full_weights + others) / rate - compute)

    spent = [
        b * R * P * C,
        (B_R * B_P - b) * R * P * C,
        B_R * R * idle_inner,
        B_R * R * idle_columns,
        B_R * R * left_out,
    ]
    return [count * Fraction(work, multipliers) for work in spent] + [count * wait_anyway, count * (wait - wait_anyway)]
