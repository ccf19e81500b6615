// Testbench of the engine under Verilator: runs jobs from a file, writes their cycles and their memory.
//
//   engine_tb JOBS RESULTS
//
// Both files are 32-bit words, the lowest byte first.  A job: its descriptor (engine_pkg::job_t); `num`, `den`, latency and
// `turn` of the memory (memory.hpp); its words, an even number; the memory, two words of 16 bits in each.  A result: cycles; the memory.

#include <cstdio>
#include <memory>

#include "Vengine.h"
#include "memory.hpp"
#include "verilated.h"

#ifndef LIMIT
#define LIMIT 1000000000u  // cycles of a job, at most
#endif

static constexpr int JOB_WORDS = sizeof(Vengine::job) / sizeof(Number);

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

  uint32_t head[JOB_WORDS + 5];
  while (read_words(jobs, head, JOB_WORDS + 5)) {
    for (int i = 0; i < JOB_WORDS; i++) engine->job[JOB_WORDS - 1 - i] = head[i];
    Memory<Vengine> memory;
    memory.num = head[JOB_WORDS];
    memory.den = head[JOB_WORDS + 1];
    memory.latency = head[JOB_WORDS + 2];
    memory.turn = head[JOB_WORDS + 3];
    memory.words.resize(head[JOB_WORDS + 4]);
    if (!read_words(jobs, memory.words.data(), memory.words.size() / 2)) return 2;
    engine->start = 1;
    engine->eval();
    tick();
    engine->start = 0;

    uint64_t first = UINT64_MAX;
    for (uint64_t now = 0, end = UINT64_MAX; now <= end; now++) {
      memory.serve(*engine);
      if (engine->burst && first == UINT64_MAX) first = now;
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
    fwrite(memory.words.data(), 2, memory.words.size(), results);
  }
  engine->final();
  return fclose(results) == 0 ? 0 : 2;
}
