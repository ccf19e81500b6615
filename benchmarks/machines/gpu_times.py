"""Latency of networks on an NVIDIA GPU with PyTorch, one sample: ``python gpu_times.py fp16|fp32 OUT.csv``.

Weights are random.  A network runs as a CUDA graph, so that no gaps between launches count; a time is the median of 30
runs after cuDNN has chosen its algorithms.
"""

from __future__ import annotations

import csv
import statistics
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

torch: Any = import_module("torch")  # by name: no other part of fluidb needs either, or their types
torchvision: Any = import_module("torchvision")

MODELS = {
    "resnet50": 224, "mobilenet_v2": 224, "vgg16": 224, "squeezenet1_1": 224, "inception_v3": 299, "resnet18": 224,
    "alexnet": 224,
}  # fmt: skip
"""Networks of torchvision, and rows and columns of their input."""

NAMES = {"squeezenet1_1": "squeezenet1_1.toml"}
"""Files beside this one, of networks that fluidb does not ship."""

RUNS, WARM = 30, 3


def latency_us(model: Any, image: Any) -> float:
    """The median time of a CUDA graph of one inference."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            model(image)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(image)
    times = []
    for _ in range(WARM + RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    median_us: float = statistics.median(times[WARM:])
    return median_us


def main(precision: str, out: Path) -> None:
    """Measure every network."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    place = partial(torch.Tensor.to, device="cuda", dtype={"fp16": torch.float16, "fp32": torch.float32}[precision])
    with out.open("w", newline="") as file, torch.no_grad():
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["network", "latency_us"])
        for name, side in MODELS.items():
            options = {"aux_logits": False, "init_weights": False} if name == "inception_v3" else {}
            image = place(torch.randn(1, 3, side, side)).to(memory_format=torch.channels_last)
            model = getattr(torchvision.models, name)(**options).eval().to(image.device, image.dtype)
            writer.writerow(
                [NAMES.get(name, name), f"{latency_us(model.to(memory_format=torch.channels_last), image):.5g}"]
            )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
