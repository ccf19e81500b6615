"""A network that runs on this machine, with the samples that it answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, check_labels, open_arrays
from ..formats.array_types import Floats, Ints
from ..models.digits import INPUTS, MODEL
from ..models.schema import NAME
from ..traffic.exits import decide, levels
from ..traffic.measures import CONFIDENCE, Threshold
from ..traffic.samples import Samples
from .cores import chosen_cores, cores_text
from .maps import MapRunner
from .needs import check_runtime

DRAWN = 256
"""Random samples that a network gets if the user has none; their answers mean nothing."""

MAX_BYTES = 2**30
"""Most samples that are held; more are refused before they are decompressed."""

TOLERANCE = 1e-3
"""Largest difference of two answers that rounding explains, as a share of the largest value."""

HALF_TOLERANCE = 1e-2
"""The same for answers of 16 bits, which have three decimal places."""


class RealNetwork:
    """An ONNX network, cut at its exits, and the samples of a data set.

    ``model`` is a file or ``digits``, which ships; ``inputs`` an ``.npz`` file with ``input``, or an array for each
    input of the network, and perhaps ``label``, by default random samples; ``exits`` are the outputs that answer,
    ``values`` inputs that are constants.
    ``measure`` and ``thresholds`` are those by which the model decides about its exits; by default no thresholds.
    """

    def __init__(
        self,
        model: str,
        inputs: Path | None = None,
        exits: Sequence[str] | None = None,
        threads: int = 1,
        progress: Callable[[int, int], None] | None = None,
        values: Mapping[str, float] | None = None,
    ) -> None:
        check_runtime(model)
        from ..models.importers.onnx.cut import read_stages
        from .runtime import VERSION, Session

        shipped = model == "digits" and not Path(model).exists()
        self.path = MODEL if shipped else Path(model)
        self.name, self.runtime = NAME.plain(self.path.stem), f"onnxruntime {VERSION}"
        self.cores = chosen_cores(threads)
        self.runs_on = f"{self.runtime}, threads: {threads}, {cores_text(self.cores)}"
        parts = read_stages(self.path, exits, values or {})
        self.session = Session(parts, threads, self.cores, self.path)
        self.exits = [stage.answer for stage in parts.stages]
        decided = parts.decided
        self.measure = decided.decisions[0].measure if decided else CONFIDENCE
        self.thresholds: list[Threshold] | None = (
            [decision.threshold for decision in decided.decisions] if decided else None
        )
        file = INPUTS if shipped and inputs is None else inputs
        self.labels: NDArray[Any] | None = None
        if file is None:
            self.inputs = self._random()
        else:
            self._read(file)
        self.answers = self._alone(file or self.path, progress)
        if self.labels is not None:
            check_labels(file or self.path, self.labels, self.answers[-1].shape[1])
        self.probabilities = [stage.probabilities or _shares(answers)
                              for stage, answers in zip(parts.stages, self.answers, strict=True)]  # fmt: skip
        if self.thresholds is not None:
            self._check_decisions(file or self.path)

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def _random(self) -> dict[str, NDArray[Any]]:
        """Random samples, which are enough to measure times."""
        random, drawn, faults = np.random.default_rng(0), {}, []
        for name, (shape, kind) in self.session.inputs.items():
            if kind is None or not np.issubdtype(kind, np.floating) or not all(isinstance(n, int) for n in shape[1:]):
                faults.append(
                    f'{self.path}: input "{name}": expected samples (inputs), as its type or size cannot be drawn'
                )
            else:
                drawn[name] = random.normal(size=(DRAWN, *shape[1:])).astype(kind)
        if faults:
            raise InputError(faults)
        return drawn

    def _read(self, file: Path) -> None:
        wanted = self.session.inputs
        with open_arrays(file) as arrays:
            names = {name: name for name in arrays.names if name != "label"}
            if len(wanted) == 1 and "input" in names:
                names = {next(iter(wanted)): "input"}
            if set(names) != set(wanted):
                expected, present = ", ".join(wanted), ", ".join(names) or "none"
                raise InputError(f"{file}: expected the arrays {expected}, and perhaps label, found {present}")
            kinds = {names[name]: kind for name, (_, kind) in wanted.items()}
            kinds |= {"label": None} if "label" in arrays.names else {}
            size = sum(_bytes(*arrays.header(name), kind) for name, kind in kinds.items())
            if size > MAX_BYTES:
                raise InputError(
                    f"{file}: expected at most {MAX_BYTES / 2**30:g} GiB of samples, found {size / 2**30:.3g} GiB; "
                    "save fewer of them"
                )
            held = {name: arrays.read(source) for name, source in names.items()}
            self.labels = arrays.read("label") if "label" in kinds else None
        given = [*held.values(), *([] if self.labels is None else [self.labels])]
        sizes = {len(values) if values.ndim else 0 for values in given}
        if len(sizes) != 1 or 0 in sizes:
            raise InputError(f"{file}: expected arrays with a row for each sample, found {sorted(sizes)} rows")
        self.inputs = {name: values if wanted[name][1] is None else values.astype(wanted[name][1])
                       for name, values in held.items()}  # fmt: skip

    def _alone(self, file: Path, progress: Callable[[int, int], None] | None) -> list[NDArray[Any]]:
        """The answers to every sample alone."""
        rows: list[list[NDArray[Any]]] = []
        for row in range(len(self)):
            try:
                rows.append(self.session.run_whole({name: v[row : row + 1] for name, v in self.inputs.items()}))
            except Exception as error:  # noqa: BLE001  whatever the runtime's C++ says
                raise InputError(f"{file}: row {row + 1}: {' '.join(str(error).split())[:150]}") from None
            if progress is not None:
                progress(row + 1, len(self))
        for name, answer in zip(self.exits, rows[0], strict=True):
            sizes = answer.shape if isinstance(answer, np.ndarray) else ()
            if len(sizes) != 2 or sizes[0] != 1 or sizes[1] < 2:
                size = " x ".join(map(str, sizes)) or "a list or a map"
                raise InputError(
                    f'{self.path}: exit "{name}": expected an answer of 1 x classes, two or more, to one sample, found '
                    f"{size}; name outputs of classifiers (exits)"
                )
        by_exit = [np.concatenate(answers) for answers in zip(*rows, strict=True)]
        for name, values in zip(self.exits, by_exit, strict=True):
            if np.isnan(values).any():
                row = int(np.isnan(values).any(axis=1).argmax())
                raise InputError(f'{file}: row {row + 1}: exit "{name}": expected scores, found NaN')
        return by_exit

    def _check_decisions(self, file: Path) -> None:
        """Refuse a model that itself answers otherwise than at the exit that its thresholds choose."""
        last = len(self.exits)
        confidences, least = self._confidences(), np.array(levels(self.thresholds, last, self.measure))
        left = decide(confidences, least.tolist(), last)
        near = (np.abs(confidences[:, : last - 1] - least) <= TOLERANCE).any(axis=1)  # rounding may decide otherwise
        for row, exit_ in enumerate(left.tolist()):
            own = self.session.run_original({name: values[row : row + 1] for name, values in self.inputs.items()})
            if not near[row] and not _same(own[0], self.answers[exit_ - 1][row]):
                raise InputError(
                    f"{file}: row {row + 1}: expected the model to answer as at the exit that its If nodes choose, "
                    f'"{self.exits[exit_ - 1]}", found another answer; export a model that always runs to its end '
                    "and has the answer of each exit as an output"
                )

    def confidence(self, stage: int, answers: NDArray[Any]) -> Floats:
        """How sure each answer of a stage, counted from 0, is: the measure as arrays hold it.

        Answers that are no probabilities go through a softmax.  Where the model decides about exits, values are rounded
        as it rounds them: an answer may meet a threshold exactly.
        """
        shares = answers.astype(np.float64)
        if not self.probabilities[stage]:
            shares = np.exp(shares - shares.max(axis=1, keepdims=True))
            shares = shares / shares.sum(axis=1, keepdims=True)
        sure = self.measure.to_array(np.clip(self.measure.of(shares), self.measure.low, self.measure.high))
        return sure if self.thresholds is None else sure.astype(answers.dtype).astype(np.float64)

    def _confidences(self) -> Floats:
        return np.column_stack([self.confidence(stage, answers) for stage, answers in enumerate(self.answers)])

    def samples(self) -> Samples:
        """The answer to every sample at every exit; without labels, the answer of the last exit counts as right."""
        chosen = np.column_stack([answers.argmax(axis=1) for answers in self.answers])
        right = chosen[:, -1] if self.labels is None else self.labels
        return Samples(self._confidences(), chosen == right[:, None], self.path, measure=self.measure)

    def runner(self, rows: Ints, returned: Callable[[int], None] = lambda _: None) -> MapRunner:
        """A device that runs the network for requests; each is one of the samples."""
        return MapRunner(self.session.run_stage, self.inputs, rows, self.confidence, returned)

    def warm_up(self, b_max: int) -> None:
        """Run every stage at every batch size once."""
        for batch in range(b_max, 0, -1):
            rows = np.arange(batch) % len(self)
            tensors = {name: values[rows] for name, values in self.inputs.items()}
            for stage in range(len(self.exits)):
                where = f"{self.path}: stage {stage + 1}, batch of {batch}"
                try:
                    answers, tensors = self.session.run_stage(stage, tensors)
                except RuntimeError as error:
                    raise InputError(f"{where}: {error}; is the batch size fixed inside the model?") from None
                for name, values in {self.exits[stage]: answers, **tensors}.items():
                    if len(values) != batch:
                        raise InputError(f'{where}: tensor "{name}": expected a row for each sample, found '
                                         f"{len(values)} rows: the model cannot be cut there")  # fmt: skip
                if self.differing(rows, np.full(batch, stage + 1), list(answers)):
                    raise InputError(
                        f"{where}: a sample gets another answer in a batch than alone; export the model for inference "
                        "(PyTorch: model.eval()), so that no Dropout draws and no normalisation takes the mean over a "
                        "batch"
                    )

    def differing(self, rows: Ints, exits: Ints, answers: Sequence[NDArray[Any]]) -> int:
        """Number of answers that the network run alone does not give, beyond rounding."""
        alone = [self.answers[exit_ - 1][row] for row, exit_ in zip(rows.tolist(), exits.tolist(), strict=True)]
        return sum(not _same(one, other) for one, other in zip(answers, alone, strict=True))


def _bytes(shape: Sequence[int], kind: np.dtype[Any], wanted: Any) -> int:
    """Bytes of an array as it is held: in its own type or, if that is larger, in the one that is wanted."""
    return math.prod(shape) * max(kind.itemsize, np.dtype(wanted or kind).itemsize)


def _shares(answers: NDArray[Any]) -> bool:
    """True if every answer is a row of probabilities."""
    return bool((answers >= 0).all()) and np.allclose(answers.sum(axis=1), 1.0, atol=TOLERANCE)


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """True if two answers are the same but for rounding."""
    share = HALF_TOLERANCE if one.dtype == np.float16 else TOLERANCE
    return np.allclose(one, other, rtol=share, atol=share * float(np.abs(other).max()))
