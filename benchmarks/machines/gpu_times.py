"""Latency of networks on an NVIDIA GPU with PyTorch, one sample: ``python gpu_times.py fp16|fp32 OUT.csv [--layers]``.

Weights are random.  A network runs as a CUDA graph, so that no gaps between launches count; a time is the median of 30
runs after cuDNN has chosen its algorithms.  With ``--layers`` each convolution and each fully connected layer does so
by itself, 20 times in a graph.
"""

from __future__ import annotations

import argparse
import csv
import statistics
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

BY_LAYER = (
    "resnet50", "mobilenet_v2", "vgg16", "squeezenet1_1", "resnet18", "alexnet", "densenet121", "googlenet",
    "efficientnet_b0", "mobilenet_v3_large",
)  # fmt: skip
"""Networks of torchvision that are measured by layer."""

SIZES = (
    "input_height", "input_width", "input_channels", "output_channels", "kernel_height", "kernel_width", "stride",
    "groups", "padding",
)  # fmt: skip
"""Columns of the sizes of a layer."""

RUNS, WARM, ALONE = 30, 3, 20


def latency_us(model: Any, image: Any, times: int = 1) -> float:
    """The median time of an inference in a CUDA graph that runs it ``times``."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            model(image)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            model(image)
    times_us = []
    for _ in range(WARM + RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times_us.append(1e3 * begin.elapsed_time(end) / times)
    median_us: float = statistics.median(times_us[WARM:])
    return median_us


def sizes_of(layer: Any, image: Any) -> tuple[int, ...] | None:
    """The sizes of a layer, as a row states them; ``None`` if it cannot."""
    if isinstance(layer, torch.nn.Linear):
        return 1, 1, layer.in_features, layer.out_features, 1, 1, 1, 1, 0
    (stride, across), (pad, beside) = layer.stride, layer.padding
    if stride != across or pad != beside:
        return None
    return (*image.shape[2:], layer.in_channels, layer.out_channels, *layer.kernel_size, stride, layer.groups, pad)


def layers_of(model: Any, image: Any) -> list[tuple[str, Any, Any]]:
    """Every convolution and fully connected layer with its name and its input."""
    seen: list[tuple[str, Any, Any]] = []
    hooks = [
        part.register_forward_hook(lambda layer, given, _, name=name: seen.append((name, layer, given[0].clone())))
        for name, part in model.named_modules()
        if isinstance(part, torch.nn.Conv2d | torch.nn.Linear)
    ]
    model(image)
    for hook in hooks:
        hook.remove()
    return seen


def placed(name: str, side: int, dtype: Any) -> tuple[Any, Any]:
    """A network of torchvision and an input, on the GPU."""
    place = partial(torch.Tensor.to, device="cuda", dtype=dtype)
    options = {"init_weights": False} if name in ("inception_v3", "googlenet") else {}
    options |= {"aux_logits": False} if options else {}
    image = place(torch.randn(1, 3, side, side)).to(memory_format=torch.channels_last)
    model = getattr(torchvision.models, name)(**options).eval().to(image.device, image.dtype)
    return model.to(memory_format=torch.channels_last), image


def main() -> None:
    """Measure every network, or every layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("precision", choices=["fp16", "fp32"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", action="store_true")
    asked = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    dtype = {"fp16": torch.float16, "fp32": torch.float32}[asked.precision]
    with asked.out.open("w", newline="") as file, torch.no_grad():
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["network", *(["layer"] if asked.layers else []), "latency_us", *(SIZES if asked.layers else ())]
        )
        for name in BY_LAYER if asked.layers else MODELS:
            model, image = placed(name, MODELS.get(name, 224), dtype)
            if not asked.layers:
                writer.writerow([NAMES.get(name, name), f"{latency_us(model, image):.5g}"])
                continue
            known: dict[tuple[int, ...], float] = {}
            for layer, part, given in layers_of(model, image):
                sizes = sizes_of(part, given)
                if sizes is None:
                    continue
                if sizes not in known:
                    known[sizes] = latency_us(part, given, ALONE)
                writer.writerow([name, layer, f"{known[sizes]:.5g}", *sizes])


if __name__ == "__main__":
    main()
