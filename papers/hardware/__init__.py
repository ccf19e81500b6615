"""Engines beside measured hardware (``fluidb reproduce hardware``).

``measurements.csv`` has rows of Xilinx/Vitis-AI, READMEs of the model zoo at tags v2.0 and, for Ultra96, v2.5
(Apache-2.0): latency of one thread, no number changed; the columns platform and network are ours.  ``nvdla.csv`` has
layers and MAC cycles of nvdla/hw, branch nvdlav1, perf/NVDLA_OpenSource_Performance.xlsx (Open NVDLA licence), the
vendor's own model.  ``cores.csv`` has the frames a second of many threads in the same rows of Vitis-AI, where one is
stated; the columns platform, cores and network are ours.  ``mlperf.csv`` has runs of mlcommons/inference_results_v0.7,
closed division, Server (Apache-2.0), from mlperf_log_summary.txt: rate, least number of requests and percentiles of
latency, no number changed.
"""

from pathlib import Path

from ..paper import Paper

MEASUREMENTS, SHEET, MLPERF, THREADS = (
    Path(__file__).with_name(name) for name in ("measurements.csv", "nvdla.csv", "mlperf.csv", "cores.csv")
)

INTRODUCTION = """\
Written by `fluidb reproduce hardware -o results`. The vendor measured the boards (Xilinx/Vitis-AI, model zoo, tags v2.0
and, for Ultra96, v2.5, Apache-2.0) in int8, with one thread and with the host's part. NVDLA's cycles come from its
vendor's model (nvdla/hw, branch nvdlav1, performance sheet). *Paper* is the measured time, *ours* the predicted one. A
row is *calibrated* if constants were fitted to it, as for ResNet-50, MobileNet-V1 and VGG-16, and *predicted* if its
network was held out."""

PAPER = Paper(
    name="hardware",
    package=__name__,
    title="# Measured hardware, predicted",
    introduction=INTRODUCTION,
    items={
        "hardware_dpu": "boards",
        "hardware_cores": "cores",
        "hardware_shapes": "boards",
        "hardware_pixels": "boards",
        "hardware_nvdla": "sheet",
        "hardware_mlperf": "mlperf",
    },
    folder="hardware",
)
