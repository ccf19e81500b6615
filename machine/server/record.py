"""What clients sent and what became of it, in a folder that commands read (``fluidb serve --record``).

Every line is written at once and whole, so that it survives the end of the process, whatever ends it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from ...formats import InputError, write_directory
from ...formats.tables import table_text
from ...serving.networks import ServedNetwork, names_of
from ...serving.scheduler import Scheduler
from ...tables.files import LATENCY_FILE
from ..live import Sample
from ..recorded import NETWORKS_FILE, OUTCOMES_FILE, SERVED, SERVED_FILE, TRACE_FILE, networks_text

_APPEND = os.O_WRONLY | os.O_APPEND


def check_new(folder: Path) -> None:
    """Refuse a folder that exists: no record is replaced, nor continued."""
    if folder.exists():
        raise InputError(f"record: {folder}: expected a new folder, found one that exists; choose another name")


class Recorder:
    """Keeps every sample: when it arrived, and what became of it."""

    def __init__(
        self, folder: Path, networks: Sequence[ServedNetwork], slo_s: Sequence[float], scheduler: Scheduler
    ) -> None:
        check_new(folder)
        self.names, more, files = [""], "", {}
        if named := names_of(networks):
            self.names, more = [f",{name}" for name in named], ",network"
            files[NETWORKS_FILE] = networks_text(networks)
        served = {"schema": SERVED, "policy": scheduler.spec, "slo_s": list(slo_s)}
        files |= {
            SERVED_FILE: json.dumps(served, indent=1) + "\n",
            TRACE_FILE: f"request_id,arrival_s,slo_s,admitted_with{more}\n",
            OUTCOMES_FILE: f"request_id,outcome,exit,answer_confidence,queue_s,device_s{more}\n",
        }
        files |= {str(Path(network.name, LATENCY_FILE)): table_text(network.latency) for network in networks}
        write_directory(folder, files, replace=False)
        self.trace, self.outcomes = (os.open(folder / name, _APPEND) for name in (TRACE_FILE, OUTCOMES_FILE))
        self.folder, self.numbers, self.fault = folder, count(), ""

    def arrived(self, samples: Sequence[Sample]) -> None:
        """Keep samples that arrive."""
        for sample in samples:
            sample.number = next(self.numbers)
        self._write(
            self.trace,
            [f"{s.number},{s.arrival_s!r},{s.slo_s!r},{s.number - s.row}{self.names[s.network]}\n" for s in samples],
        )

    def note(self, samples: Sequence[Sample]) -> None:
        """Keep what became of samples that leave; one without an answer has exit 0."""
        lines = []
        for s in samples:
            sure = s.sure[s.exit - 1] if s.exit else 0.0
            lines.append(
                f"{s.number},{s.outcome},{s.exit},{sure!r},{s.queue_s!r},{s.device_s!r}{self.names[s.network]}\n"
            )
        self._write(self.outcomes, lines)

    def _write(self, file: int, lines: Sequence[str]) -> None:
        """Add lines; once a disk is full, nothing more is written, as half a record says nothing."""
        if self.fault:
            return
        try:
            os.write(file, "".join(lines).encode())
        except OSError as error:
            self.fault = f"record: {self.folder}: {error.strerror}; what came later is not recorded"
