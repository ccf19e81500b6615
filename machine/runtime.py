"""Runs the stages of an ONNX network with ONNX Runtime; the only module that knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from ..formats import InputError
from ..models.importers.onnx.cut import Parts

VERSION: str = onnxruntime.__version__


def start(model: Any, threads: int, cores: Sequence[int] = ()) -> Any:
    """A model ready to run on this machine's processor."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # its faults come as exceptions
    if len(cores) > 1:
        pool = ";".join(str(core + 1) for core in cores[1:])  # it counts processors from 1
        options.add_session_config_entry("session.intra_op_thread_affinities", pool)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Session:
    """The stages of a network, ready to run on this machine's processor; ``path`` is the model's file, for faults."""

    def __init__(self, parts: Parts, threads: int, cores: Sequence[int], path: Path) -> None:
        self.stages = parts.stages
        models = {f"stage {number}": stage.model for number, stage in enumerate(parts.stages, 1)} | {"all": parts.whole}
        models |= {"the model itself": parts.original} if parts.decided else {}
        started = []
        for name, model in models.items():
            try:
                run = start(model, threads, cores)
            except Exception as error:  # noqa: BLE001  whatever its C++ says
                raise InputError(f"{path}: {name}: ONNX Runtime refuses it ({_line(error)})") from None
            started.append((run, [output.name for output in run.get_outputs()]))
        self.original = started.pop() if parts.decided else None
        *self.runs, (self.whole, _) = started
        self.place = parts.decided.place if parts.decided else 0
        self.axes = {name: axis for stage in parts.stages for name, axis in stage.axes.items()}

    @property
    def inputs(self) -> dict[str, tuple[list[Any], Any]]:
        """Shape, and numpy type, of every input of the network."""
        types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
                 "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}  # fmt: skip
        return {tensor.name: (tensor.shape, types.get(tensor.type)) for tensor in self.whole.get_inputs()}

    def run_whole(self, tensors: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """The answers at all exits, by the network as one model."""
        answers: list[NDArray[Any]] = self.whole.run(None, dict(tensors))
        return answers

    def run_original(self, tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The answer of a model that decides about its exits itself, to one sample."""
        assert self.original is not None
        run, names = self.original
        answer: NDArray[Any] = run.run([names[self.place]], dict(tensors))[0]
        return answer

    def run_stage(
        self, number: int, tensors: Mapping[str, NDArray[Any]]
    ) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """Run a stage, counted from 0."""
        stage, (run, names) = self.stages[number], self.runs[number]
        given = {name: tensors[name] for name in stage.reads}
        for name in given.keys() & self.axes.keys():
            given[name] = np.moveaxis(given[name], 0, self.axes[name])
        try:
            outputs = dict(zip(names, run.run(names, given), strict=True))
        except Exception as error:
            raise RuntimeError(f"stage {number + 1} failed: {_line(error)}") from error
        for name in outputs.keys() & self.axes.keys():
            outputs[name] = np.moveaxis(outputs[name], self.axes[name], 0)
        return outputs[stage.answer], {
            name: outputs[name] if name in outputs else tensors[name] for name in stage.keeps
        }


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:150]
