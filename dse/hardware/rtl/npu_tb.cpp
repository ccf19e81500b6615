// Testbench of the NPU under Verilator: gives it the commands of a scheduler, and checks what it computes and when.
//
//   npu_tb MEMORY COMMANDS
//
// MEMORY is words, COMMANDS numbers (memory.hpp), both with the lowest byte first.  COMMANDS begins with `num`, `den`,
// latency and `turn` (memory.hpp), the address of the records, and the cycles from `start`, or from the end of a layer, to
// the first burst of the next.  Then, each after its number in memory.hpp:
//
//   WRITE: address, words, the words, as many in each number as it holds; the host writes into the memory
//   EXPECT: the same; these words have to be there
//   GIVE: strobes, b_exit, b_incr, slot
//   RUN: layers, whether the last is one before an exit; and of each: number, b, cycles
//   ENTRY: number, bits; an entry of the control block
//   LATER: cycles; the next GIVE comes so long after the next RUN begins, while the NPU is busy
//   RESET: cycles, lasts; after so many cycles the NPU is reset for so many, while the memory goes on; then it is idle
//   FAULT: code; the fault that is there at the end of each RUN from now on, up to a reset

#include <cstdarg>
#include <cstdio>
#include <memory>
#include <type_traits>

#include "Vnpu.h"
#include "memory.hpp"
#include "verilated.h"

#ifndef LIMIT
#define LIMIT 1000000000u  // cycles of a layer, at most
#endif

static const Number NONE[4] = {};  // no strobe

struct Bench {
  VerilatedContext context;
  Vnpu npu{&context};
  Memory<Vnpu> memory;
  Number between = 0, fault_code = 0;
  const Number *later = nullptr;  // strobes that come during a run
  uint64_t later_at = 0;
  uint64_t layers = 0, words = 0, faults = 0;

  void fault(const char *format, ...) {
    va_list values;
    va_start(values, format);
    if (++faults <= 20) vprintf(format, values);
    va_end(values);
  }

  void reset(Number lasts) {
    npu.rst = 1;
    for (Number i = 0; i < lasts; i++) next();
    npu.rst = 0;
    for (unsigned now = 0; !npu.idle && now <= LIMIT; now++) next();
    fault_code = 0;
    check_fault();
  }

  void next() {
    memory.serve(npu);
    tick();
  }

  void tick() {
    npu.clk = 1;
    npu.eval();
    npu.clk = 0;
  }

  void expect(Number address, const std::vector<Word> &wanted) {
    for (size_t i = 0; i < wanted.size(); i++, words++) {
      const Word found = memory.words[address + i];
      if (found != wanted[i]) fault("FAIL word %zu: expected %d, found %d\n", address + i, std::make_signed_t<Word>(wanted[i]), std::make_signed_t<Word>(found));
    }
  }

  void check_fault() {
    if (npu.fault != fault_code) fault("FAIL expected fault %u, found %u\n", fault_code, npu.fault);
  }

  // The strobes are there for one cycle.
  void give(const Number *of) {
    strobe(of);
    next();
    strobe(NONE);
  }

  void strobe(const Number *of) {
    npu.update = (of[0] & UPDATE) != 0;
    npu.restart = (of[0] & RESTART) != 0;
    npu.advance = (of[0] & ADVANCE) != 0;
    npu.start = (of[0] & START) != 0;
    npu.b_exit = of[1];
    npu.b_incr = of[2];
    npu.slot = of[3];
  }

  void enter(Number number, Number bits) {
    npu.entry_write = 1;
    npu.entry_address = number;
    npu.entry_bits = bits;
    next();
    npu.entry_write = 0;
  }

  // From the cycle after `start` to the end of each layer, then until the last words are written.
  bool run(const Number *wanted, Number count, bool at_exit) {
    Number done = 0, bursts = 0;
    uint64_t since = 0, now = 1;  // of `start`, or the end of the last layer; then of the layer's first burst
    for (uint64_t run = 0; !npu.idle && done <= count && now <= LIMIT; now++, run++) {
      strobe(later && run == later_at ? later : NONE);
      memory.serve(npu);
      if (npu.burst && ++bursts == 2) {  // the first is the record's
        if (now - since != between) fault("FAIL layer %u: begins after %lu cycles, expected %u\n", npu.layer, long(now - since), between);
        since = now;
      }
      if (npu.layer_done) {
        const Number found[3] = {npu.layer, npu.b_act, Number(now - since)};
        printf("layer %u, batch of %u: %u cycles\n", found[0], found[1], found[2]);
        const Number *row = wanted + 3 * done;
        if (done < count && (found[0] != row[0] || found[1] != row[1] || found[2] != row[2])) {
          fault("FAIL expected layer %u, batch of %u: %u cycles\n", row[0], row[1], row[2]);
        }
        done++;
        bursts = 0;
        since = now = 0;
      }
      tick();
    }
    strobe(NONE);
    later = nullptr;
    layers += done;
    if (done != count) fault("FAIL expected %u layers, found %u\n", count, done);
    if (npu.at_exit != at_exit) fault("FAIL expected at_exit %d, found %d\n", at_exit, npu.at_exit);
    check_fault();
    for (int i = 0; i < WRITE_DELAY; i++) next();
    return npu.idle;
  }
};

template <typename Word> static bool read_file(const char *path, std::vector<Word> &words) {
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  fseek(file, 0, SEEK_END);
  words.resize(ftell(file) / sizeof(Word));
  rewind(file);
  const bool whole = fread(words.data(), sizeof(Word), words.size(), file) == words.size();
  fclose(file);
  return whole;
}

int main(int argc, char **argv) {
  Bench bench;
  std::vector<Number> commands;
  if (argc != 3 || !read_file(argv[1], bench.memory.words) || !read_file(argv[2], commands) || commands.size() < 6) {
    fprintf(stderr, "usage: %s MEMORY COMMANDS\n", argv[0]);
    return 2;
  }
  bench.memory.num = commands[0];
  bench.memory.den = commands[1];
  bench.memory.latency = commands[2];
  bench.memory.turn = commands[3];
  bench.npu.records = commands[4];
  bench.between = commands[5];
  bench.npu.clk = 0;
  bench.npu.eval();
  bench.reset(1);

  for (size_t at = 6; at < commands.size();) {
    const Number command = commands[at], *of = &commands[at + 1];
    if (command == WRITE || command == EXPECT) {
      std::vector<Word> words(of[1]);
      for (Number i = 0; i < of[1]; i++) words[i] = of[2 + i / WORDS] >> WORD_BITS * (i % WORDS);
      if (command == EXPECT) bench.expect(of[0], words);
      else std::copy(words.begin(), words.end(), bench.memory.words.begin() + of[0]);
      at += 3 + (of[1] + WORDS - 1) / WORDS;
    } else if (command == GIVE) {
      bench.give(of);
      at += 5;
    } else if (command == LATER) {
      bench.later_at = of[0];
      bench.later = of + 2;  // behind the number of GIVE
      at += 7;
    } else if (command == RESET) {
      for (Number i = 0; i < of[0]; i++) bench.next();
      bench.reset(of[1]);
      at += 3;
    } else if (command == FAULT) {
      bench.fault_code = of[0];
      at += 2;
    } else if (command == ENTRY) {
      bench.enter(of[0], of[1]);
      at += 3;
    } else {
      if (!bench.run(of + 2, of[0], of[1])) {
        printf("FAILED: the NPU does not stop\n");
        return 1;
      }
      at += 3 + 3 * of[0];
    }
  }
  bench.npu.final();
  const auto &memory = bench.memory;
  printf("loads: %lu beats, %lu of them unaligned; on an aligned bus %lu, with neighbours merged %lu\n", long(memory.beats),
         long(memory.unaligned), long(memory.lines), long(memory.fetched));
  if (bench.faults) {
    printf("FAILED: %lu faults\n", long(bench.faults));
    return 1;
  }
  printf("PASSED: %lu layers, %lu words\n", long(bench.layers), long(bench.words));
  return 0;
}
