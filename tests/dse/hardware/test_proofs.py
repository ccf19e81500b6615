"""Contracts of the RTL, proved by induction for every input: the Fluid Batching Engine, beats in flight, reset.

Numbers are narrow here, a few beats are in flight, and parts that only move data are boxes that do anything.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from builders import tool
from fluidb.dse import engine
from fluidb.dse.hardware.templates import ENGINE, RTL, filled
from synthesis import Size, control_block

NARROW = {"NUMBER_BITS": 4, "SIZE_BITS": 4, "BEAT_BITS": 5 + 4 * 4, "FLIGHT_BITS": 2, "RESET_CYCLES": 4}
SIZES: dict[str, Any] = {"T_R": 4, "T_P": 1, "T_C": 1, "V": 1, "S": 1}

IN_FLIGHT = """
  // What is noted of any one beat, in the cycle after it, is what comes back with its words.
  logic begun = 1'b0, held = 1'b0;
  (* anyconst *) logic [FLIGHT_BITS-1:0] which;
  logic [engine_pkg::LOAD_BITS-1:0] noted;
  engine_pkg::load_t taken;
  wire late = was_taken && was_sent == which;
  wire [FLIGHT_BITS-1:0] beats = sent - come, before = which - come;
  always @(posedge clk) begin
    begun <= begun || start;
    if (start) held <= 1'b0;
    else if (take && sent == which) begin
      held  <= 1'b1;
      taken <= load_beat;
    end else if (read_valid && come == which) held <= 1'b0;
    if (late) noted <= {taken, on_map};
    assume (!start || !take);  // the port is done
    if (begun) begin
      assume (!read_valid || in_flight != 0);
      assert (in_flight <= 1 << FLIGHT_BITS && in_flight[FLIGHT_BITS-1:0] == beats);
      assert (!valid || write || in_flight < 1 << FLIGHT_BITS);
      assert (held == (before < in_flight));
      assert (!late || (held && was_beat == taken && was_sent + 1'b1 == sent));
      assert (!held || late || flying[which] == noted);
      assert (!held || come != which || {arrived, arrived_map} == (late ? {taken, on_map} : noted));
    end
  end
endmodule"""

ANSWERED = """
  // The engine asks for beats while it runs, for as many as may be in flight, and ends when all are answered.
  logic known = 1'b0;
  engine_pkg::number_t was_records;
  always @(posedge clk) begin
    known       <= 1'b1;
    was_records <= records;
    assume (known || rst);
    assume (records == was_records);
    assume (state == RUN || !(engine_valid || engine_burst));
    assume (!engine_valid || engine_write || unanswered < 1 << FLIGHT_BITS);
    assume (!engine_done || (unanswered == 0 && !engine_valid));
    assume (!waits || state != RUN || (engine_valid && engine_write == was_write && engine_address == was_address
        && engine_count == was_count));
    assert (known ? unanswered <= 1 << FLIGHT_BITS : unanswered == 0);
    if (known) begin
      assert (lasts == 0 || state == DRAIN);
      assert (state != FETCH || (come <= asked && asked <= BEATS && unanswered == asked - come));
    end
  end
endmodule"""


class Proof(NamedTuple):
    """A module with its parts, those that are boxes, and what stands at its end; errors that the proof notices."""

    words: int  # of a beat
    b_max: int
    steps: int  # of the induction
    parts: tuple[str, ...]
    boxes: tuple[str, ...]
    end: str
    errors: dict[str, tuple[str, str]]


DATA = ("element", "inputs", "load_beats", "outputs", "residual", "scale", "store_beats", "sums", "tiles", "weights")
PROOFS = {
    "fbe": Proof(
        8, 4, 7, ("fbcb", "fbe"), (), "endmodule",
        {
            "more samples than B_max": ("too_many ? COUNT_BITS'(B_MAX) : ", ""),
            "a remainder of B_R": ("(rest) >= part", "(rest) > part"),
        },
    ),
    "engine": Proof(
        2, 4, 2, ("engine", "port", "ram"), DATA, IN_FLIGHT,
        {
            "one beat too many": ("(in_flight[FLIGHT_BITS])", "(in_flight[FLIGHT_BITS] && read_valid)"),
            "a note too late": ("flying[was_sent] <= note", "flying[sent] <= note"),
            "the note of another beat": ("(was_taken && was_sent == come) ?", "was_taken ?"),
            "a note that is not there yet": ("(was_taken && was_sent == come) ? note : ", ""),
        },
    ),
    "npu": Proof(
        8, 2, 4, ("fbcb", "fbe", "npu"), ("engine",), ANSWERED,
        {
            "idle before all is answered": ("if (unanswered == '0) state <= IDLE", "state <= IDLE"),
            "words that nobody asked for": ("read_valid && unanswered != '0", "read_valid"),
            "a place beyond the maps": ("if (empty || beyond)", "if (empty)"),
            "a strobe that is obeyed": ("update && idle", "update"),
        },
    ),
}  # fmt: skip


def proves(name: str, folder: Path, old: str = "", new: str = "") -> bool:
    """Whether Yosys proves the assertions of a module, one text of which is replaced."""
    proof, files = PROOFS[name], {path.stem: path for path in (*ENGINE.glob("*.sv"), *RTL.glob("*.sv"))}
    (folder / "engine_pkg.sv").write_text(filled("engine_pkg.sv", W=proof.words, **SIZES))
    (folder / "fbe_pkg.sv").write_text(control_block(Size(0, 0, 0, 0, 0, 3, proof.b_max, 1)))
    for part in proof.parts:
        text = files[part].read_text(encoding="utf-8")
        if part == name:
            assert old in text
            text = text.replace(old, new).replace("endmodule", proof.end)
        text = text.replace("int'(", f"{engine.SUM_BITS}'(")  # Yosys reads neither this nor what an assertion says
        (folder / f"{part}.sv").write_text(re.sub(r"\)\s*else \$fatal\(1, \"[^\"]*\"\);", ");", text))
    formal = "-formal -DSYNTHESIS" if name == "engine" else "-formal"  # its own are about the data
    boxes = [str(files[box]) for box in proof.boxes]
    script = f"read_verilog -sv engine_pkg.sv fbe_pkg.sv {' '.join(boxes)}; "
    script += f"read_verilog -sv {formal} {' '.join(f'{part}.sv' for part in proof.parts)}; "
    script += f"blackbox {' '.join(proof.boxes)}; " if boxes else ""
    script += f"hierarchy -top {name}; proc; flatten; delete -port o:*; opt_clean -purge; memory -nomap; memory_map; "
    script += "opt -fast; sat -tempinduct -seq 1 -prove-asserts -set-assumes -ignore_unknown_cells"
    script += f" -maxsteps {proof.steps}"
    done = subprocess.run([tool("yosys"), "-p", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return "Induction step proven" in done.stdout


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NARROW.items():
        monkeypatch.setattr(engine, name, value)


@pytest.mark.parametrize("name", PROOFS)
def test_contracts_hold_for_every_input(name: str, tmp_path: Path) -> None:
    assert proves(name, tmp_path)


@pytest.mark.parametrize(("name", "error"), [(name, error) for name, proof in PROOFS.items() for error in proof.errors])
def test_a_proof_notices_an_error(name: str, error: str, tmp_path: Path) -> None:
    assert not proves(name, tmp_path, *PROOFS[name].errors[error])
