// Software for a network on a board whose memory is LiteDRAM's: brings the DRAM up, and gives the NPU its commands.
//
//   Vdram_bench MEMORY COMMANDS
//
// MEMORY and COMMANDS are what `fluidb hardware --integers` writes; npu_tb.cpp says what they contain.  Cycles are not
// compared but printed: of each layer those that the latency table counts, those before them, and beats.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "Vdram_bench.h"
#include "fluidb_npu.h"
#include "memory.hpp"
#include "verilated.h"

static constexpr Number BASE = 1 << 20;  // bytes; what lies before the maps may be read
static constexpr uint64_t LIMIT = 400000000;  // cycles until an answer comes

static Vdram_bench top;

// Of the layer that runs.
static uint64_t now, since, begun, beats[4];  // of loads and stores, as asked for and as moved
static Number bursts, layers;

static void tick() {
  top.eval();
  const bool come[4] = {bool(top.loads), bool(top.stores), bool(top.loaded), bool(top.stored)};
  for (int i = 0; i < 4; i++) beats[i] += come[i];
  if (top.burst && ++bursts == 2) begun = now, memset(beats, 0, sizeof beats);  // the first is the record's
  if (top.layer_done) {
    printf("layer %u %u %lu %lu", top.layer, top.b_act, long(now - begun), long(begun - since));
    for (int i = 0; i < 4; i++) printf(" %lu", long(beats[i]));
    printf("\n");
    layers++;
  }
  if (top.layer_done || top.start) since = now, bursts = 0;
  top.clk = 1;
  top.eval();
  top.clk = 0;
  if (++now > LIMIT) {
    printf("FAILED: the NPU does not stop\n");
    exit(1);
  }
}

// LiteDRAM's registers, for the functions that it writes.
#define CSR_ACCESSORS_DEFINED

static void on_control_bus(unsigned long at, bool write) {
  top.wb_ctrl_adr = at / 4;
  top.wb_ctrl_we = write;
  top.wb_ctrl_stb = 1;
  for (top.eval(); !top.wb_ctrl_ack; top.eval()) tick();
  tick();
  top.wb_ctrl_stb = 0;
}

static void csr_write_simple(unsigned long value, unsigned long at) {
  top.wb_ctrl_dat_w = value;
  on_control_bus(at, true);
}

[[maybe_unused]] static unsigned long csr_read_simple(unsigned long at) {
  on_control_bus(at, false);
  return top.wb_ctrl_dat_r;
}

void cdelay(int cycles) {
  while (cycles-- > 0) tick();
}

#include <generated/csr.h>
#include <generated/sdram_phy.h>

// As LiteX's boot software does for a PHY that needs no training.
static void bring_up() {
  sdram_dfii_control_write(DFII_CONTROL_CKE | DFII_CONTROL_ODT | DFII_CONTROL_RESET_N);
  init_sequence();
  sdram_dfii_control_write(DFII_CONTROL_SEL);
  ddrctrl_init_done_write(1);
}

// The NPU's registers.
static void write_register(Number at, Number value) {
  top.s_axi_awaddr = at;
  top.s_axi_wdata = value;
  top.s_axi_awvalid = top.s_axi_wvalid = 1;
  for (top.eval(); !top.s_axi_awready; top.eval()) tick();
  tick();
  top.s_axi_awvalid = top.s_axi_wvalid = 0;
  while (!top.s_axi_bvalid) tick();
  tick();
}

static Number read_register(Number at) {
  top.s_axi_araddr = at;
  top.s_axi_arvalid = 1;
  tick();
  top.s_axi_arvalid = 0;
  while (!top.s_axi_rvalid) tick();
  const Number value = top.s_axi_rdata;
  tick();
  return value;
}

// The host's port: a command and a beat a cycle, as far as the controller takes them.
static void write_memory(uint64_t address, const std::vector<Word> &words) {
  address += BASE / sizeof(Word);
  const uint64_t first = address / BEAT_WORDS, end = (address + words.size() + BEAT_WORDS - 1) / BEAT_WORDS;
  top.host_cmd_we = 1;
  for (uint64_t command = first, beat = first; beat < end;) {
    uint8_t strobes[sizeof(top.host_wdata_data) / sizeof(Word) + 1] = {};
    for (Number i = 0; i < BEAT_WORDS; i++) {
      const uint64_t at = beat * BEAT_WORDS + i - address;
      const bool is = beat * BEAT_WORDS + i >= address && at < words.size();
      reinterpret_cast<Word *>(&top.host_wdata_data)[i] = is ? words[at] : 0;
      strobes[i / 4] |= is ? 3 << 2 * (i % 4) : 0;
    }
    memcpy(&top.host_wdata_we, strobes, sizeof(top.host_wdata_we));
    top.host_cmd_addr = command;
    top.host_cmd_valid = command < end;
    top.host_wdata_valid = 1;
    top.eval();
    command += top.host_cmd_valid && top.host_cmd_ready;
    beat += top.host_wdata_ready;
    tick();
  }
  top.host_cmd_valid = top.host_wdata_valid = 0;
}

static std::vector<Word> read_memory(uint64_t address, Number count) {
  address += BASE / sizeof(Word);
  const uint64_t first = address / BEAT_WORDS, end = (address + count + BEAT_WORDS - 1) / BEAT_WORDS;
  std::vector<Word> words;
  top.host_cmd_we = 0;
  for (uint64_t command = first; words.size() < (end - first) * BEAT_WORDS;) {
    top.host_cmd_addr = command;
    top.host_cmd_valid = command < end;
    top.eval();
    command += top.host_cmd_valid && top.host_cmd_ready;
    const Word *beat = reinterpret_cast<const Word *>(&top.host_rdata_data);
    if (top.host_rdata_valid) words.insert(words.end(), beat, beat + BEAT_WORDS);
    tick();
  }
  top.host_cmd_valid = 0;
  words.erase(words.begin(), words.begin() + (address - first * BEAT_WORDS));
  words.resize(count);
  return words;
}

template <typename Word> static std::vector<Word> read_file(const char *path) {
  std::vector<Word> words;
  FILE *file = fopen(path, "rb");
  for (Word word; file && fread(&word, sizeof(Word), 1, file);) words.push_back(word);
  return words;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const auto memory = read_file<Word>(argv[1]);
  const auto commands = read_file<Number>(argv[2]);
  top.aresetn = 0;
  for (int i = 0; i < 10; i++) tick();
  top.aresetn = 1;
  bring_up();
  while (!(read_register(FLUIDB_STATUS) & FLUIDB_STATUS_IDLE)) tick();
  write_memory(0, memory);
  write_register(FLUIDB_BASE, BASE);
  write_register(FLUIDB_RECORDS, commands[4]);
  write_register(FLUIDB_ENABLE, FLUIDB_EVENT_DONE);

  uint64_t checked = 0, faults = 0;
  for (size_t at = 6; at < commands.size();) {
    const Number command = commands[at], *of = &commands[at + 1];
    now = since = 0;
    if (command == WRITE || command == EXPECT) {
      std::vector<Word> words(of[1]);
      for (Number i = 0; i < of[1]; i++) words[i] = of[2 + i / WORDS] >> WORD_BITS * (i % WORDS);
      if (command == WRITE) write_memory(of[0], words);
      else if (read_memory(of[0], of[1]) != words && ++faults) printf("FAIL words from %u on\n", of[0]);
      checked += command == EXPECT ? of[1] : 0;
      at += 3 + (of[1] + WORDS - 1) / WORDS;
    } else if (command == GIVE) {
      write_register(FLUIDB_B_EXIT, of[1]);
      write_register(FLUIDB_B_INCR, of[2]);
      write_register(FLUIDB_SLOT, of[3]);
      layers = 0;
      write_register(FLUIDB_CONTROL, of[0]);
      at += 5;
    } else if (command == RUN) {
      while (!top.done) tick();
      write_register(FLUIDB_EVENTS, FLUIDB_EVENT_DONE);
      const Number status = FLUIDB_STATUS_IDLE | (of[1] ? FLUIDB_STATUS_AT_EXIT : 0);
      if ((read_register(FLUIDB_STATUS) != status || layers != of[0]) && ++faults) printf("FAIL status or layers\n");
      at += 3 + 3 * of[0];
    } else return 2;
  }
  top.final();
  printf("%s: %lu faults, %lu words\n", faults ? "FAILED" : "PASSED", long(faults), long(checked));
  return faults != 0;
}
