"""The JSON of a design that a search on boards found."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ....dse.npu.design import DesignTable
    from ....dse.npu.fbcb import FbcbTable


def design_record(design: DesignTable, fbcb: FbcbTable) -> dict[str, object]:
    """The JSON of a design."""
    from ....dse.npu.objectives import OBJECTIVES

    best, *others = design.ranking
    shares = {key: getattr(design, key) for key in ("gop_s", "energy_j", "dsp_share", "ram_share", "lut_share")}
    return {
        "network": design.network.name,
        "platform": design.platform.name,
        "bandwidth_gb_s": design.platform.bandwidth_gb_s,
        "options": design.options,
        **best.model_dump(),
        "objective_unit": OBJECTIVES[design.options.objective].unit,
        **shares,
        "fbcb_register_bits": fbcb.register_bits,
        "fbcb_register_share": design.register_share(fbcb),
        "designs_evaluated": design.designs_evaluated,
        "designs_ruled_out": design.designs_ruled_out,
        "runners_up": others,
    }
