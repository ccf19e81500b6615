// The board, for the host's software: its clock, the pins of its serial port, and the cycles from a start to its end.

#include <cstdio>
#include <cstdlib>
#include <deque>

#include "Vboard_bench.h"
#include "board_driver.h"
#include "fluidb_latency.h"
#include "verilated.h"

static constexpr int BIT = (FLUIDB_CLOCK_HZ + BAUD / 2) / BAUD;  // cycles
static constexpr uint64_t LIMIT = 10 * uint64_t{FLUIDB_CLOCK_HZ};  // cycles from a byte of the board to the next

static Vboard_bench top;
static uint64_t now, started, heard;
static bool running;
static std::deque<uint8_t> received;

// A byte of the board: each bit in its middle, as it may come while the host still sends.
static void listen() {
  static int phase = -1;  // cycles from the edge of the start bit
  static unsigned byte;
  if (phase < 0 && top.serial_tx) return;
  if (++phase % BIT != BIT / 2) return;
  const int bit = phase / BIT;
  byte = byte >> 1 | top.serial_tx << 7;
  if (bit == 8) received.push_back(byte), heard = now;
  if (bit == 9) phase = -1;
}

static void tick() {
  top.clk = 0;
  top.eval();
  if (top.start) started = now, running = true;
  if (running && top.done) {
    printf("cycles %lu\n", (unsigned long)(now - started));
    running = false;
  }
  top.clk = 1;
  top.eval();
  listen();
  if (++now - heard > LIMIT) {
    printf("FAILED: the board does not answer\n");
    exit(1);
  }
}

void wait_cycles(int cycles) {
  while (cycles-- > 0) tick();
}

void serial_send(uint8_t byte) {
  const unsigned frame = 0x200 | byte << 1;  // from its start bit to its stop bit
  for (int i = 0; i < 10; i++) {
    top.serial_rx = frame >> i & 1;
    wait_cycles(BIT);
  }
}

uint8_t serial_receive() {
  while (received.empty()) tick();
  const uint8_t byte = received.front();
  received.pop_front();
  return byte;
}

int main() {
  top.serial_rx = 1;
  top.rst = 1;
  wait_cycles(10);
  top.rst = 0;
  wait_cycles(1000);  // until the NPU is reset
  const int wrong = drive();
  printf("%s: %d wrong, %lu cycles\n", wrong ? "FAILED" : "PASSED", wrong, (unsigned long)now);
  top.final();
  return wrong != 0;
}
