"""The designs of a search: one of an NPU that several networks share, as a table for each of them."""

from __future__ import annotations

from ...formats import AnyPath
from ...models import Network
from ...platforms import Board, as_board
from .costs import samples_side_by_side
from .design import DesignTable, NetworkShare, Together, tabulate_design
from .fbcb import FbcbTable
from .options import SearchOptions
from .search import SearchResult
from .workload import Workload, as_workload


def tabulate_each(
    network: Network | AnyPath | Workload, platform: Board | AnyPath, options: SearchOptions, result: SearchResult
) -> list[tuple[DesignTable, FbcbTable]]:
    """Make the tables of a search for each of its networks.

    Parameters
    ----------
    network, platform, options
        As for :func:`.search.search`.
    result : SearchResult
        Its result.

    Returns
    -------
    list of tuple of DesignTable and FbcbTable
        The design and its surroundings, and the control block, network by network.  If there are several, each design
        states what all of them ask of the NPU.
    """
    workload, platform = as_workload(network), as_board(platform)
    most = options.samples_side_by_side(workload, platform, result.best.tile.array)
    pairs = zip(workload.networks, options.of_each(workload), strict=True)
    tables = [tabulate_design(each, platform, own, result, most) for each, own in pairs]
    if len(tables) == 1:
        return tables
    together = Together(
        networks=[NetworkShare(name=name, share=share) for name, share in workload.by_name.items()],
        control_bits=sum(fbcb.register_bits for _, fbcb in tables),
        most_samples=int(most[0]),
        samples=max(samples_side_by_side(*each) for each in tables),
    )
    designs = [(design.model_copy(update={"together": together}), fbcb) for design, fbcb in tables]
    return [(design, fbcb.derived_from(design)) for design, fbcb in designs]
