"""Runs the stages of an ONNX network with ONNX Runtime; the only module that knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from ...models.importers.onnx.cut import Stage

try:
    import onnxruntime
except ImportError:
    raise InputError(
        "a real device needs the extra `runtime`, which is not installed: pip install 'fluidb[onnx,runtime]'"
    ) from None

VERSION: str = onnxruntime.__version__


class Session:
    """The stages of a network, ready to run on this machine's processor.

    Parameters
    ----------
    stages : sequence of Stage
        In order.
    threads : int
        Threads of a stage.
    path : Path
        The model's file, for faults.

    Raises
    ------
    InputError
        If the runtime refuses a stage.
    """

    def __init__(self, stages: Sequence[Stage], threads: int, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        self.stages, self.runs = stages, []
        for number, stage in enumerate(stages, 1):
            try:
                run = onnxruntime.InferenceSession(
                    stage.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
                )
            except Exception as error:  # noqa: BLE001  whatever its C++ says
                raise InputError(f"{path}: stage {number}: ONNX Runtime refuses it ({_line(error)})") from None
            self.runs.append((run, [item.name for item in run.get_outputs()]))

    @property
    def inputs(self) -> dict[str, tuple[list[Any], Any]]:
        """Shape, and numpy type, of every input of the network."""
        types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
                 "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}  # fmt: skip
        given = {name for stage in self.stages for name in stage.reads} - {
            item.name for stage in self.stages for item in stage.model.graph.output
        }
        found = {item.name: item for run, _ in self.runs for item in run.get_inputs() if item.name in given}
        return {name: (item.shape, types.get(item.type)) for name, item in found.items()}

    def run_stage(
        self, number: int, tensors: Mapping[str, NDArray[Any]]
    ) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """Run a stage, counted from 0.

        Parameters
        ----------
        number : int
            The stage.
        tensors : mapping of str to ndarray
            What it takes, a row for each sample.

        Returns
        -------
        (ndarray, dict of str to ndarray)
            The answers, and the tensors that later stages take.

        Raises
        ------
        RuntimeError
            If it fails.
        """
        stage, (run, names) = self.stages[number], self.runs[number]
        try:
            found = dict(zip(names, run.run(names, {name: tensors[name] for name in stage.reads}), strict=True))
        except Exception as error:
            raise RuntimeError(f"stage {number + 1} failed: {_line(error)}") from error
        return found[stage.answer], {name: found[name] if name in found else tensors[name] for name in stage.keeps}


def _line(error: Exception) -> str:
    """What the runtime says, in one line."""
    return " ".join(str(error).split())[:150]
