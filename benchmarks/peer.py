"""Evaluation of layers on one design by another tool, in its own environment: seconds for each layer, as JSON.

Arguments: the tool's name and, as JSON, layers with their R, P, C and the design's T_P, T_C.
"""

import contextlib
import io
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SCALESIM = """
[general]
run_name = bench
[architecture_presets]
ArrayHeight = {T_P}
ArrayWidth = {T_C}
IfmapSramSzkB = 1024
FilterSramSzkB = 1024
OfmapSramSzkB = 256
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = os
Bandwidth = 16
ReadRequestBuffer = 32
WriteRequestBuffer = 32
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
"""An output-stationary array of the design's size."""


def scalesim(layer: str, sizes: list[int], design: dict[str, int], folder: Path) -> None:
    """Run SCALE-Sim as its command does for a topology of one product, without writing traces."""
    from scalesim.scale_sim import scalesim as tool  # type: ignore[import-not-found]

    R, P, C = sizes
    (folder / "scale.cfg").write_text(SCALESIM.format(**design))
    (folder / "layers.csv").write_text(f"Layer,M,N,K,\n{layer.replace('.', '_')},{R},{C},{P},\n")
    (folder / "layout.csv").write_text("Layer,\n")
    run = tool(
        save_disk_space=True, verbose=False, config=str(folder / "scale.cfg"), topology=str(folder / "layers.csv"),
        layout=str(folder / "layout.csv"), input_type_gemm=True,
    )  # fmt: skip
    run.run_scale(top_path=str(folder))


def zigzag(layer: str, sizes: list[int], _: dict[str, int], folder: Path) -> None:
    """Run ZigZag for the product on an accelerator that it ships, with the mapping of that accelerator."""
    import zigzag.api  # type: ignore[import-not-found]

    inputs = Path(zigzag.__file__).parent / "inputs"
    workload = [
        {
            "id": 0,
            "name": layer,
            "operator_type": "Gemm",
            "equation": "O[b][k]+=W[k][c]*I[b][c]",
            "loop_dims": ["B", "C", "K"],
            "loop_sizes": sizes,
            "operand_precision": {"W": 8, "I": 8, "O": 16, "O_final": 8},
            "operand_source": {"I": 0, "W": 0},
        }
    ]
    zigzag.api.get_hardware_performance_zigzag(
        workload=workload,
        accelerator=str(inputs / "hardware" / "tpu_like.yaml"),
        mapping=str(inputs / "mapping" / "tpu_like.yaml"),
        opt="latency",
        dump_folder=str(folder / "outputs"),
        loma_show_progress_bar=False,
    )


def main() -> None:
    """Run every layer."""
    tool: Callable[[str, list[int], dict[str, int], Path], None] = {"scalesim": scalesim, "zigzag": zigzag}[sys.argv[1]]
    problem = json.loads(sys.argv[2])
    logging.disable(logging.INFO)
    seconds = {}
    for layer, sizes in problem["layers"].items():
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            begin = time.perf_counter()
            tool(layer, sizes, problem["design"], Path(folder))
            seconds[layer] = time.perf_counter() - begin
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
