"""What cocotb runs beside the simulated hardware: the bridge alone, or a whole NPU; test_axi.py builds and calls it.

The memory and the master of the registers are cocotbext-axi's, which checks the protocol.
"""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave

OPTIONS = json.loads(os.environ["AXI_OPTIONS"])
"""``words`` of a beat, ``seed``, ``pause`` (share of cycles in which each channel waits), and others of each test."""

FILES = {name: Path(OPTIONS[name]).read_bytes() for name in ("memory", "commands") if name in OPTIONS}

CODES = OPTIONS.get("codes", {})
"""Of commands, and bits of registers, by name."""

BASE, MARGIN = 0x3000, 4096
PART = 8192
"""Words; one half of the memory is read while the other is written: four pages each."""


class FailingMemory:
    """The memory behind the bus: bytes from an address on, an error beyond; what it was asked for."""

    def __init__(self, content: bytes) -> None:
        self.bytes, self.broken = bytearray(content), range(0)
        self.reads = self.writes = self.slow_ns = 0

    def _range(self, address: int, length: int) -> slice:
        at = address - BASE
        if at < 0 or at + length > len(self.bytes) or address in self.broken:
            raise ValueError(address)
        return slice(at, at + length)

    async def read(self, address: int, length: int) -> bytes:
        self.reads += 1
        return bytes(self.bytes[self._range(address, length)])

    async def write(self, address: int, data: bytes) -> None:
        self.writes += 1
        if self.slow_ns:
            await Timer(self.slow_ns, "ns")
        self.bytes[self._range(address, len(data))] = data


class Channels:
    """The bus's other end, with pauses in every channel, and the bursts that went over it."""

    def __init__(
        self, dut: Any, clock: Any, reset: tuple[Any, bool], target: FailingMemory, draw: Random | None
    ) -> None:
        slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), clock, reset[0], target, reset_active_level=reset[1])
        self.bursts: dict[str, list[int]] = {"ar": [], "aw": []}
        for name in self.bursts:
            cocotb.start_soon(self._count(dut, clock, name))
        ends = {
            "ar": slave.read_if.ar_channel, "r": slave.read_if.r_channel, "aw": slave.write_if.aw_channel,
            "w": slave.write_if.w_channel, "b": slave.write_if.b_channel,
        }  # fmt: skip
        for share, end in zip(OPTIONS["pause"], ends.values(), strict=True):
            if share and draw:
                end.set_pause_generator(pauses(draw, share))

    async def _count(self, dut: Any, clock: Any, name: str) -> None:
        valid, ready, more = (getattr(dut, f"m_axi_{name}{of}") for of in ("valid", "ready", "len"))
        while True:
            await RisingEdge(clock)
            if str(valid.value) == "1" and ready.value:
                self.bursts[name].append(1 + more.value.to_unsigned())


def pauses(draw: Random, share: float) -> Any:
    """Some long ones, and many short ones."""
    while True:
        waits = draw.random() < share
        for _ in range(draw.choice([1, 1, 2, 3, 12])):
            yield waits


class Bridge:
    """The NPU's side of the bridge: requests at random, and what must come of them."""

    def __init__(self, dut: Any, draw: Random, content: bytes) -> None:
        self.dut, self.draw, self.words = dut, draw, np.frombuffer(content, "<u2").copy()
        self.reads: deque[tuple[int, int]] = deque()
        self.writes: deque[tuple[int, int]] = deque()  # cycle in which words are due, and what they are
        self.now = self.lines = 0
        self.newest = -1  # the last line that was fetched

    async def leave_reset(self) -> None:
        await ClockCycles(self.dut.clk, 3)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def cycle(self, request: tuple[bool, int, int] | None = None) -> bool:
        """One cycle, with a request or without; whether it is accepted."""
        dut, W = self.dut, OPTIONS["words"]
        dut.valid.value = request is not None
        if request:
            dut.write.value, dut.address.value, dut.count.value = request
        due = bool(self.writes) and self.writes[0][0] == self.now
        dut.write_words.value = self.writes.popleft()[1] if due else self.draw.getrandbits(16 * W)
        await ReadOnly()
        accepted = request is not None and bool(dut.ready.value)
        if dut.read_valid.value:
            (address, count), got = self.reads.popleft(), str(dut.read_words.value)
            for i in range(count):
                word = got[len(got) - 16 * (i + 1) : len(got) - 16 * i]
                assert word == f"{self.words[address + i]:016b}", (address, i)
        await RisingEdge(dut.clk)
        if accepted and request:
            self.accept(*request)
        self.now += 1
        return accepted

    def accept(self, write: bool, address: int, count: int) -> None:
        if not write:
            self.reads.append((address, count))
            W = OPTIONS["words"]
            first, last = address // W, (address + count - 1) // W
            self.lines += last - first + (first != self.newest)
            self.newest = last
            return
        words = [self.draw.getrandbits(16) for _ in range(OPTIONS["words"])]
        self.words[address : address + count] = words[:count]
        self.writes.append((self.now + 4, sum(word << 16 * i for i, word in enumerate(words))))

    async def give(self, request: tuple[bool, int, int]) -> None:
        for _ in range(5000):
            if (request[0] or len(self.reads) < 128) and await self.cycle(request):
                return
            if len(self.reads) == 128:
                await self.cycle()
        raise AssertionError("the bridge stands still")

    async def settle(self) -> None:
        """Until all is answered; then what was fetched is forgotten, as between two layers."""
        for _ in range(9000):
            await self.cycle()
            if not self.reads and not self.writes and self.dut.quiet.value:
                break
        else:
            raise AssertionError("the bridge does not come to rest")
        self.newest, self.dut.forget.value = -1, 1
        await self.cycle()
        self.dut.forget.value = 0

    async def run(self, write: bool, first: int, beats: int, piece: int, gaps: float) -> None:
        """Beats that follow one another, as of a line of a map."""
        W = OPTIONS["words"]
        for i in range(beats):
            count = W if i < beats - 1 else piece
            await self.give((write, first + i * W, count))
            while self.draw.random() < gaps:
                await self.cycle()


async def in_reset(dut: Any) -> None:
    cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
    dut.rst.value = 1
    dut.base.value = BASE
    for name in ("valid", "write", "address", "count", "write_words", "forget"):
        getattr(dut, name).value = 0
    await ClockCycles(dut.clk, 3)


@cocotb.test(skip="commands" in OPTIONS)
async def words_are_where_they_belong(dut: Any) -> None:
    """Every offset and count; then random runs of reads and of writes, at other addresses until all is written."""
    draw, W = Random(OPTIONS["seed"]), OPTIONS["words"]
    content = draw.randbytes(2 * 2 * PART)
    target = FailingMemory(content)
    await in_reset(dut)
    Channels(dut, dut.clk, (dut.rst, True), target, draw)
    bridge = Bridge(dut, draw, content)
    await bridge.leave_reset()
    pieces = [(count, offset) for count in range(1, W + 1) for offset in range(W)]
    for count, offset in draw.sample(pieces, min(len(pieces), 200)):
        await bridge.give((True, 64 + offset, count))
        await bridge.give((False, PART + 2048 - W + offset, count))
    await bridge.settle()
    for _ in range(OPTIONS["runs"]):
        parts = draw.sample([0, PART], 2)
        for _ in range(draw.randrange(1, 6)):
            write = draw.random() < 0.4
            first = parts[write] + draw.choice([64, 2048 - 70]) + draw.randrange(3 * W)
            gaps = draw.choice([0, 0, 0, 0.5])
            await bridge.run(write, first, draw.choice([1, 2, 3, 40]), draw.randint(1, W), gaps)
        await bridge.settle()
    assert bytes(target.bytes) == bridge.words.astype("<u2").tobytes()
    assert target.reads == bridge.lines  # what the beat before fetched is not fetched again


@cocotb.test(skip="commands" in OPTIONS)
async def neighbours_are_merged(dut: Any) -> None:
    """40 beats that begin in the middle of a line touch 41 lines, each once, in as few bursts as pages allow."""
    draw, W = Random(OPTIONS["seed"]), OPTIONS["words"]
    content = draw.randbytes(2 * 2 * PART)
    target = FailingMemory(content)
    await in_reset(dut)
    channels = Channels(dut, dut.clk, (dut.rst, True), target, None)
    bridge = Bridge(dut, draw, content)
    await bridge.leave_reset()
    for write in (False, True):
        begins = 2048 - 20 * W + W // 2  # of its 41 lines 20 are in the first page
        await bridge.run(write, begins, 40, W, 0.0)
        await bridge.settle()
    assert (target.reads, target.writes) == (41, 41)
    assert channels.bursts == {"ar": [16, 4, 16, 5], "aw": [16, 4, 16, 5]}
    assert bytes(target.bytes) == bridge.words.astype("<u2").tobytes()


class Stopped(Exception):
    """A fault interrupted."""


class Software:
    """Software on a board: what it writes to registers and memory, and what it reads there."""

    def __init__(self, dut: Any, target: FailingMemory, registers: dict[str, int]) -> None:
        self.dut, self.target, self.at = dut, target, registers
        self.master = AxiLiteMaster(
            AxiLiteBus.from_prefix(dut, "s_axi"), dut.aclk, dut.aresetn, reset_active_level=False
        )

    async def read(self, name: str) -> int:
        return int.from_bytes((await self.master.read(self.at[name], 4)).data, "little")

    async def write(self, name: str, value: int) -> None:
        answer = await self.master.write(self.at[name], value.to_bytes(4, "little"))
        assert answer.resp == 0

    async def give(self, strobes: int, b_exit: int, b_incr: int, slot: int) -> None:
        for name, value in zip(("B_EXIT", "B_INCR", "SLOT"), (b_exit, b_incr, slot), strict=True):
            await self.write(name, value)
        await self.write("CONTROL", strobes)

    async def interrupted(self, event: int) -> None:
        """Wait for the interrupt, which one event alone raises, and clear it."""
        if not self.dut.interrupt.value:
            await with_timeout(RisingEdge(self.dut.interrupt), OPTIONS["limit"], "us")
        events = await self.read("EVENTS")
        if events & CODES["FAULT"] & ~event:
            if events == CODES["FAULT"]:
                await self.interrupted(events)
            raise Stopped
        assert await self.read("EVENTS") == event
        await self.write("EVENTS", 3 & ~event)
        await self.write("ENABLE", 3 & ~event)
        assert not self.dut.interrupt.value
        await self.write("ENABLE", 3)
        assert self.dut.interrupt.value
        await self.write("EVENTS", event)
        assert not self.dut.interrupt.value
        assert await self.read("EVENTS") == 0

    def words(self, address: int, count: int) -> np.ndarray:
        return np.frombuffer(self.target.bytes, "<i2", count, 2 * address)

    async def follow(self, commands: np.ndarray) -> None:
        """Commands of the NPU's testbench (npu_tb.cpp); cycles are not compared."""
        at = 6
        while at < len(commands):
            command, of = commands[at], [int(word) for word in commands[at + 1 : at + 5]]
            if command in (CODES["WRITE"], CODES["EXPECT"]):
                words = commands[at + 3 :][: (of[1] + 1) // 2].view("<i2")[: of[1]]
                if command == CODES["WRITE"]:
                    self.target.bytes[2 * of[0] : 2 * (of[0] + of[1])] = words.tobytes()
                else:
                    assert np.array_equal(self.words(of[0], of[1]), words)
                at += 3 + (of[1] + 1) // 2
            elif command == CODES["GIVE"]:
                await self.give(*of)
                at += 5
            else:
                assert command == CODES["RUN"]
                await self.interrupted(CODES["DONE"])
                rows = commands[at + 3 :][: 3 * of[0]].reshape(-1, 3)
                assert await self.read("STATUS") == CODES["IDLE"] | of[1] * CODES["AT_EXIT"]
                assert [await self.read("LAYER"), await self.read("B_ACT")] == rows[-1, :2].tolist()
                at += 3 + len(rows) * 3

    async def fail(self, commands: np.ndarray) -> None:
        """Follow commands up to a fault, after which the NPU asks for nothing."""
        try:
            await self.follow(commands)
        except Stopped:
            await ClockCycles(self.dut.aclk, 900)  # what was asked for before
            for _ in range(50):
                await RisingEdge(self.dut.aclk)
                assert not self.dut.m_axi_arvalid.value
                assert not self.dut.m_axi_awvalid.value
            return
        raise AssertionError("a fault and nobody said so")

    async def reset(self) -> None:
        await self.write("CONTROL", CODES["RESET"])
        for _ in range(100):
            if await self.read("STATUS") == CODES["IDLE"]:
                return
        raise AssertionError("the NPU does not come back from a reset")

    async def power_up(self) -> None:
        """Reset by the board, and what software writes once."""
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 3)
        self.dut.aresetn.value = 1
        while not await self.read("STATUS") & CODES["IDLE"]:
            await ClockCycles(self.dut.aclk, 100)
        assert not any([await self.read(name) for name in ("BASE", "B_INCR", "ENABLE", "EVENTS")])
        await self.write("BASE", BASE + 5)  # the lowest bits do not count
        await self.write("ENABLE", 3)


async def on_board(dut: Any) -> Software:
    """Out of reset, with its memory; both interrupts are enabled."""
    draw = Random(OPTIONS["seed"])
    cocotb.start_soon(Clock(dut.aclk, 10, unit="ns").start())
    dut.aresetn.value = 0
    await ClockCycles(dut.aclk, 3)
    target = FailingMemory(FILES["memory"] + bytes(MARGIN))
    Channels(dut, dut.aclk, (dut.aresetn, False), target, draw)
    board = Software(dut, target, OPTIONS["registers"])
    await board.power_up()
    return board


@cocotb.test(skip="commands" not in OPTIONS)
async def a_network_runs(dut: Any) -> None:
    """Every map is the reference's; then the memory fails, and after a reset all runs again."""
    board, commands = await on_board(dut), np.frombuffer(FILES["commands"], "<u4")
    assert [await board.read("ID"), await board.read("VERSION")] == OPTIONS["version"]
    digest = "".join([(await board.master.read(board.at["DIGEST"] + 4 * i, 4)).data[::-1].hex() for i in range(8)])
    assert digest == OPTIONS["digest"]
    await board.write("RECORDS", int(commands[4]))
    await board.follow(commands)
    await board.reset()
    for broken, status in ((OPTIONS["read"], "READ_ERROR"), (OPTIONS["written"], "WRITE_ERROR")):
        board.target.broken = range(BASE + 2 * broken, BASE + 2 * broken + 64)
        await board.fail(commands)
        assert await board.read("STATUS") == CODES[status]
        board.target.broken = range(0)
        await board.reset()
    await board.write("CONTROL", CODES["START"])  # without samples
    await with_timeout(RisingEdge(dut.interrupt), 1, "us")
    await ClockCycles(dut.aclk, 20)
    assert await board.read("EVENTS") == CODES["DONE"] | CODES["FAULT"]
    assert await board.read("STATUS") == CODES["IDLE"] | CODES["EMPTY"] << CODES["FAULT_SHIFT"]
    await board.write("EVENTS", 3)
    await board.reset()
    board.target.bytes[: len(FILES["memory"])] = FILES["memory"]
    board.target.slow_ns = 500  # the next layer would read what is not there yet
    await board.follow(commands)


@cocotb.test(skip="commands" not in OPTIONS)
async def a_reset_takes_all_back(dut: Any) -> None:
    """An entry of another layout, which has no record; and a run that the board's reset ends."""
    board, commands = await on_board(dut), np.frombuffer(FILES["commands"], "<u4")
    await board.write("RECORDS", int(commands[4]))
    for name, value in zip(("ENTRY_ADDRESS", "ENTRY"), OPTIONS["entry"], strict=True):
        await board.write(name, value)
    await board.fail(commands)
    assert await board.read("EVENTS") == CODES["DONE"] | CODES["FAULT"]
    assert await board.read("STATUS") == CODES["IDLE"] | CODES["STALE"] << CODES["FAULT_SHIFT"]
    await board.write("EVENTS", 3)
    await board.reset()
    run = cocotb.start_soon(board.follow(commands))
    for _ in range(OPTIONS["beats"]):
        await RisingEdge(dut.m_axi_rlast)
    run.cancel()
    board.target.bytes[: len(FILES["memory"])] = FILES["memory"]
    await board.power_up()
    await board.write("RECORDS", int(commands[4]))
    await board.follow(commands)
