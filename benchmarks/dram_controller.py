"""LiteDRAM's generator, also for a single-data-rate memory at half rate: ``dram.py`` calls it as ``litedram_gen``.

For simulation the generator knows such a memory only with one phase a cycle.  LiteX's PHY for the ULX3S can have two,
with the memory at twice the clock (``--sdram-rate 1:2``).  The settings are the PHY's own.
"""

from __future__ import annotations

import sys
from typing import Any

import litedram.gen
import litedram.modules
from litedram.phy import HalfRateGENSDRPHY
from litex.tools import litex_sim
from migen import Record


def half_rate(memtype: str, data_width: int, clk_freq: float) -> Any:
    """What the controller is told of the PHY, in place of ``get_sdram_phy_settings``."""
    assert memtype == "SDR"
    pins = {"a": 13, "ba": 2, "ras_n": 1, "cas_n": 1, "we_n": 1, "dq": data_width}
    return HalfRateGENSDRPHY(Record(list(pins.items())), clk_freq).settings


def main() -> None:
    """Take ``--half-rate MODULE`` out of the arguments, and leave the rest to the generator."""
    if "--half-rate" in sys.argv:
        at = sys.argv.index("--half-rate")
        name = sys.argv[at + 1]
        del sys.argv[at : at + 2]
        module = getattr(litedram.modules, name)
        init = module.__init__
        module.__init__ = lambda self, clk_freq, **_: init(self, clk_freq, "1:2")
        litex_sim.get_sdram_phy_settings = half_rate
    litedram.gen.main()


if __name__ == "__main__":
    main()
