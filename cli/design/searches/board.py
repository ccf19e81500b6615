"""The search on a board: the NPU for a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ....dse.npu.stated import Problem, parse_limit
from ....formats.display import as_word
from ...declare import KindOptions, option
from ...options import Cluster, FolderOptions, Threads
from ...render import facts, percent, progress, show, table
from ..problem import SEARCH, BestBy, Persistent, Search, board_of, design_record, not_judged
from . import many
from .limited import limits_record, limits_text, more_record, more_text, parse_more

if TYPE_CHECKING:
    from ....dse.npu.board_use import BoardUse
    from ....dse.npu.design import DesignTable
    from ....dse.npu.fbcb import FbcbTable
    from ....dse.npu.persistent import Sizes
    from ....models import Network
    from ....studies.designs import DesignRequest


@dataclass(frozen=True, kw_only=True)
class BoardSearch(Search, KindOptions):
    """The options of the search on a board, and the search."""

    with_: ClassVar[str] = "a board"

    persistent: Persistent = None
    objective: BestBy = None
    tile: Annotated[str | None, option("Evaluate this design instead of searching for one.", "T_R,T_P,T_C[,V[,W]]")] = (
        None
    )
    together: Annotated[bool, option("One NPU for all networks: the best for the mean of their requests.")] = False
    shares: Annotated[str | None, option("Each network's part of the requests; with --together.", "S1,S2,...")] = None
    top: Annotated[int, option("Designs to keep in the ranking.", min=1, max=1000)] = 5
    more: Annotated[str | None, option("Search again with this much more of each resource, e.g. 10%.", "SHARE")] = None
    scheduler: Cluster = None
    threads: Threads = None

    def read(self, network: str | Network, platform: str, **given: Any) -> Problem:
        """The search, with the memory for weights that stay."""
        problem = super().read(network, platform, **given)
        if self.persistent in (None, SEARCH):
            return problem
        mbit = parse_limit(self.persistent, "persistent", problem.platform.on_chip_mbit, "Mb", "20% or 4Mb")
        return problem._replace(options=problem.options.model_copy(update={"persistent_mbit": mbit}))

    def run(self, network: str, platform: str, written: FolderOptions) -> None:
        """Search the best design of every network on every board, write and print it."""
        from ....formats import InputError, parse_numbers

        given = parse_numbers(self.tile, "tile", int, "100,2,4")
        if self.tile is not None and len(given) not in (3, 4, 5):
            raise InputError(
                "tile: expected T_R,T_P,T_C, and perhaps V pixels, and behind them W words of a beat of the port, "
                f'found "{self.tile}"; e.g. 100,2,4'
            )
        networks = many.names_of_inputs(network, "NETWORK")
        platforms = many.names_of_inputs(platform, "PLATFORM")
        shares, sized = self._shares(len(networks)), self.persistent == SEARCH
        if sized and (given or len(networks) * len(platforms) > 1):
            raise InputError("persistent: expected one network, one board and no tile to search sizes; give a size")
        asked = many.requests(partial(self.read, tile=given or None), networks, platforms, shares)
        more = parse_more(self.more)
        if more is not None and (given or len(networks) * len(platforms) > 1):
            raise InputError("more: expected one network, one board and no tile, as it searches again; leave it out")
        if len(networks) * len(platforms) > 1:
            many.run(asked, written, top=self.top, scheduler=self.scheduler, threads=self.threads)
            return
        if self.scheduler is not None:
            raise InputError(
                "scheduler: expected several networks or boards, found one of each: its search is one task"
            )
        (request,) = asked
        self._run_one(request, more, written)

    def _run_one(self, request: DesignRequest, more: float | None, written: FolderOptions) -> None:
        """Search one NPU, write and print it."""
        from ....dse.npu.design import DESIGN_FOLDER, write_design
        from ....dse.npu.limited import gains, limited_by
        from ....dse.npu.persistent import search_persistent
        from ....dse.npu.search import search
        from ....dse.npu.together import tabulate_each

        output, sized = written.output, self.persistent == SEARCH
        DESIGN_FOLDER.check(output, written.force)
        sizes: Sizes = []
        with progress("sizes" if sized else "designs") as report:
            if sized:
                sizes, best = search_persistent(*request, top=self.top, threads=self.threads, progress=report)
                options, searched = sizes[best]
                request = *request[:2], options
            else:
                searched = search(*request, top=self.top, threads=self.threads, progress=report)
        ((design, fbcb),) = tabulate_each(*request, searched)
        if output is not None:
            write_design(output, design, fbcb, replace=written.force)
        limits = limited_by(*request, searched.best)
        record = design_record(design, fbcb) | limits_record(limits) | {"output": output}
        text = [*_text(design, fbcb, limits_text(limits, searched.best.objective)), *_sizes(sizes)]
        if sized:
            record["persistent"] = [
                {"persistent_mbit": size.persistent_mbit, **result.best.model_dump()} for size, result in sizes
            ]
        if more is not None:
            with progress("searches") as report:
                gained = gains(*request, searched.best, more, report)
            record["more"], text = more_record(gained, more), [*text, *more_text(gained, more, design.options)]
        show(written.as_json, "fluidb.dse-output/2", record, text, output, f"fluidb latency {as_word(output)}")

    def _shares(self, networks: int) -> list[float] | None:
        """Parts of the requests of networks that share an NPU; ``None`` if each has one of its own."""
        from ....formats import InputError, parse_numbers

        if not self.together:
            if self.shares is not None:
                raise InputError("shares: expected --together beside it: each network gets a design of its own")
            return None
        if networks > 1 and self.persistent is not None:
            raise InputError("persistent: weights that stay are for one network; leave out --persistent or --together")
        if self.shares is not None and self.weights is not None and self.weights.endswith(".json"):
            raise InputError("shares: expected none beside the runs of a simulation, which state the requests of each")
        return parse_numbers(self.shares, "shares", float, "3,1")


def _sizes(sizes: Sizes) -> Iterator[str]:
    """The best design for each size of the persistent buffer, if sizes were searched."""
    if sizes:
        none = sizes[0][1].best.objective
        rows = [
            (f"{size.persistent_mbit:.2f}", result.best.tile, size.text(result.best.objective),
             f"{100 * (result.best.objective / none - 1):+.2f} %")
            for size, result in sizes
        ]  # fmt: skip
        yield table(["Mb for weights that stay", "design", "objective", "change"], rows)


def _text(design: DesignTable, fbcb: FbcbTable, limits: str) -> Iterator[str]:
    from ....dse import OBJECTIVES, Objective
    from ....dse.npu.costs import board_use_of

    board = design.platform
    peak = 2e-9 * design.peak_macs_per_s
    evaluated, ruled_out = design.designs_evaluated, design.designs_ruled_out
    rest = f"{evaluated:,}; {ruled_out:,} more are ruled out by a bound" if ruled_out else f"all {evaluated:,}"
    taken, luts = board_use_of(design, fbcb), f"{percent(design.lut_share, 1)} (a fit: `fluidb docs model`)"
    lines = {
        "network": f"{design.network.title} ({design.network.name}), {len(design.network.gemms)} GEMMs",
        "board": board_of(board),
        "design": f"{design.tile.names} = {design.tile}, {design.origin}",
        "evaluated": None if design.options.tile else rest,
        "objective": design.objective_text,
        "inferences": inferences(design),
        "limits": limits,
        "peak": f"{peak:,.1f} GOP/s",
        "clock": f"{board.clock_mhz:g} MHz; {board.sources.get('clock_mhz', 'its file names no source')}",
        "port": _port(design),
        "DSPs": f"{design.dsps:,} of {board.dsps:,} ({percent(design.dsp_share)})",
        "on-chip RAM": None if taken and taken.block_rams is not None else percent(design.ram_share),
        **blocks(taken),
        "weights that stay": _stays(design),
        **({} if design.lut_share is None else {"LUTs": luts}),
        "not judged": not_judged(design.options.unjudged(board)),
        "FBCB": f"{fbcb.register_bits:,} flip-flops ({percent(design.register_share(fbcb), 3)})",
    }
    yield facts(lines)
    headers = ["batch", "GOP/s", "of peak"]
    rows = [[str(b), f"{value:,.1f}", percent(value / peak, 1)] for b, value in enumerate(design.gop_s, 1)]
    if design.ideal_gop_s is not None:
        headers.append("ideal GOP/s")
        for row, gop_s in zip(rows, design.ideal_gop_s, strict=True):
            row.append(f"{gop_s:,.1f}")
    if design.energy_j is not None:
        headers.append("energy an inference")
        for row, energy_j in zip(rows, design.energy_j, strict=True):
            row.append(OBJECTIVES[Objective.ENERGY].text(energy_j))
    yield table(headers, rows)
    yield from ranking(design)


def inferences(design: DesignTable) -> str:
    """Inferences a second, one by one and in the largest batches."""
    rates = design.inferences_per_s
    sizes = {1: rates[0], design.options.b_max: rates[-1]}
    return ", ".join(f"{rate:,.4g} /s at b = {b}" for b, rate in sizes.items())


def _port(design: DesignTable) -> str | None:
    """Words of a beat of the port, and what they carry of the bandwidth; none where no port is counted."""
    if not design.options.placed:
        return None
    board, words = design.platform, int(design.port.words)
    stated = f", where its file states {board.port_words}" if board.port_words and board.port_words != words else ""
    return f"{words} words a beat{stated}; it carries {design.carried_gb_s:.4g} of {board.bandwidth_gb_s:g} GB/s"


def blocks(taken: BoardUse | None) -> dict[str, str]:
    """Lines on the blocks, LUTs and flip-flops of an FPGA that a design takes, and whether it can be placed."""
    if taken is None:
        return {}

    def number(value: float) -> str:
        return f"{value:,.1f}".removesuffix(".0")

    def of(total: float, board: int, buffers: Mapping[str, float]) -> str:
        parts = ", ".join(f"{name} {number(n)}" for name, n in buffers.items() if n)
        share = f" ({percent(total / board, 1)})" if board else ""
        return f"{number(total)} of {board:,}{share}" + (f": {parts}" if parts else "")

    lines = {}
    if taken.block_rams is not None:
        lines["block RAMs"] = of(taken.total_block_rams, taken.block_rams_of_board or 0, taken.block_rams)
        if taken.largest_T_R is not None and taken.total_block_rams > (taken.block_rams_of_board or 0):
            lines["block RAMs"] += f"; it cannot be placed with T_R above {taken.largest_T_R:,}"
    if taken.ultra_rams is not None and taken.ultra_rams_of_board:
        lines["UltraRAMs"] = of(taken.total_ultra_rams, taken.ultra_rams_of_board, taken.ultra_rams)
    if taken.luts is not None:
        lines["LUTs"] = of(taken.total_luts, taken.luts_of_board or 0, taken.luts)
    elif taken.lutram_luts:
        lines["small banks"] = f"{taken.lutram_luts:,} LUTs"
    if taken.flip_flops is not None:
        lines["flip-flops"] = of(taken.total_flip_flops, taken.flip_flops_of_board or 0, taken.flip_flops)
    if taken.luts is not None or taken.flip_flops is not None:
        lines["side by side"] = f"at most {taken.samples} sample{'s' * (taken.samples > 1)} in a tile of columns"
    if taken.fitted_mhz is not None:
        lines["fitted clock"] = f"{taken.fitted_mhz:.1f} MHz (`fluidb docs npu`, The clock)"
    return lines


def _stays(design: DesignTable) -> str | None:
    """Content of the persistent buffer, if there is one."""
    from ....dse.npu.workload import fetched_shares, products_of

    options, board = design.options, design.platform
    if not options.persistent_mbit:
        return None
    weighted = products_of(design.network, pooled=False)
    shares = fetched_shares(weighted, options.resident_words(board))
    return f"{options.persistent_mbit:g} Mb; {sum(share == 0 for share in shares)} of {len(shares)} layers whole"


def ranking(design: DesignTable) -> Iterator[str]:
    """The designs that came next, if the search kept any."""
    best, text = design.ranking[0].objective, design.options.text
    rows = [(ranked.tile, text(ranked.objective), percent(ranked.objective / best - 1)) for ranked in design.ranking]
    if len(rows) > 1:
        yield table(["ranking", "objective", "to the best"], rows)
