// Testbench of the engine under Verilator: runs jobs from a file, writes their cycles and their memory.
//
//   engine_tb JOBS RESULTS
//
// Both files are 32-bit words, the lowest byte first.  A job: its descriptor (engine_pkg::job_t); the memory is ready in
// `num` of `den` cycles; cycles to a beat's words; words of the memory, an even number; the memory, two words of 16 bits
// in each.  A result: cycles; the memory.

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "Vengine.h"
#include "verilated.h"

#ifndef LIMIT
#define LIMIT 1000000000u  // cycles of a job, at most
#endif

static constexpr int WRITE_DELAY = 4;
static constexpr int PORT_WORDS = sizeof(Vengine::read_words) / 2, JOB_WORDS = sizeof(Vengine::job) / 4;

struct Beat {
  uint64_t due;
  uint32_t address, count;
};

// Words of a port, whatever its width.
template <typename Port> static uint16_t *words_of(Port &port) { return reinterpret_cast<uint16_t *>(&port); }

static bool read_words(FILE *file, void *to, size_t count) { return fread(to, 4, count, file) == count; }

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  FILE *jobs = fopen(argv[1], "rb"), *results = fopen(argv[2], "wb");
  if (!jobs || !results) return 2;
  auto context = std::make_unique<VerilatedContext>();
  auto engine = std::make_unique<Vengine>(context.get());
  auto tick = [&] {
    engine->clk = 1;
    engine->eval();
    engine->clk = 0;
  };
  engine->clk = 0;
  engine->rst = 1;
  engine->eval();
  tick();
  engine->rst = 0;

  uint32_t head[JOB_WORDS + 4];
  while (read_words(jobs, head, JOB_WORDS + 4)) {
    for (int i = 0; i < JOB_WORDS; i++) engine->job[JOB_WORDS - 1 - i] = head[i];
    const uint32_t num = head[JOB_WORDS], den = head[JOB_WORDS + 1], latency = head[JOB_WORDS + 2];
    std::vector<uint16_t> memory(head[JOB_WORDS + 3]);
    if (!read_words(jobs, memory.data(), memory.size() / 2)) return 2;
    engine->start = 1;
    engine->eval();
    tick();
    engine->start = 0;

    std::deque<Beat> reads, writes;
    uint64_t first = UINT64_MAX;
    uint32_t pace = 0;
    for (uint64_t now = 0, end = UINT64_MAX; now <= end; now++) {
      pace += num;
      engine->ready = pace >= den;
      if (engine->ready) pace -= den;
      engine->read_valid = !reads.empty() && reads.front().due == now;
      if (engine->read_valid) {
        for (int i = 0; i < PORT_WORDS; i++) {
          const uint32_t at = reads.front().address + i;  // that of padding may lie before the memory
          words_of(engine->read_words)[i] = at < memory.size() ? memory[at] : 0xDEAD;
        }
        reads.pop_front();
      }
      engine->eval();
      if (!writes.empty() && writes.front().due == now) {
        for (uint32_t i = 0; i < writes.front().count; i++) {
          const uint64_t at = uint64_t{writes.front().address} + i;
          if (at < memory.size()) memory[at] = words_of(engine->write_words)[i];
        }
        writes.pop_front();
      }
      if (engine->burst) {
        pace = 0;  // the pace of the memory begins anew
        if (first == UINT64_MAX) first = now;
      }
      if (engine->valid && engine->ready) {
        (engine->write ? writes : reads).push_back({now + (engine->write ? WRITE_DELAY : latency), engine->address, engine->count});
      }
      if (engine->done && end == UINT64_MAX) {
        const uint32_t cycles = now - first;
        fwrite(&cycles, 4, 1, results);
        end = now + WRITE_DELAY;
      }
      if (now > LIMIT) {
        fprintf(stderr, "a job does not end within %u cycles\n", LIMIT);
        return 1;
      }
      tick();
    }
    fwrite(memory.data(), 2, memory.size(), results);
  }
  engine->final();
  return fclose(results) == 0 ? 0 : 2;
}
