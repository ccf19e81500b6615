// The host's software for the NPU on a ULX3S.  It reaches the memory and the NPU's registers by the serial port, as
// LiteX's UARTBone takes it: a command, words, address in words, then words; the highest byte of each first.

#include "board_driver.h"

#include <stdbool.h>
#include <stdio.h>

#include "fluidb_latency.h"
#include "fluidb_npu.h"

#define CSR_ACCESSORS_DEFINED
static void csr_write_simple(unsigned long value, unsigned long at);
static unsigned long csr_read_simple(unsigned long at);
#include <generated/mem.h>
#include <generated/sdram_phy.h>

// Samples that arrive before a stage and where they go, then what the NPU is told; `from` is the exit before the stage.
struct step {
  uint32_t from, arrive, slot, strobes, b_exit, b_incr;
};
#include "run.h"

enum { WRITE_WORDS = 1, READ_WORDS = 2, MOST_BEATS = 255, POLLS = 10000 };

static void send_number(uint32_t number) {
  for (int bits = 24; bits >= 0; bits -= 8) serial_send(number >> bits & 0xFF);
}

static void send_command(uint8_t command, uint32_t at, unsigned count) {
  serial_send(command);
  serial_send(count);
  send_number(at / 4);
}

static void write_bus(uint32_t at, const uint32_t *numbers, unsigned count) {
  send_command(WRITE_WORDS, at, count);
  for (unsigned i = 0; i < count; i++) send_number(numbers[i]);
}

static uint32_t receive_number(void) {
  uint32_t number = 0;
  for (int i = 0; i < 4; i++) number = number << 8 | serial_receive();
  return number;
}

static void read_bus(uint32_t at, uint32_t *numbers, unsigned count) {
  send_command(READ_WORDS, at, count);
  for (unsigned i = 0; i < count; i++) numbers[i] = receive_number();
}

static uint32_t read_number(uint32_t at) {
  send_command(READ_WORDS, at, 1);
  return receive_number();
}

static void csr_write_simple(unsigned long value, unsigned long at) {
  const uint32_t number = value;
  write_bus(at, &number, 1);
}

static unsigned long csr_read_simple(unsigned long at) { return read_number(at); }

void cdelay(int cycles) { wait_cycles(cycles); }

static void write_register(uint32_t at, uint32_t value) { write_bus(NPU_BASE + at, &value, 1); }

static uint32_t read_register(uint32_t at) { return read_number(NPU_BASE + at); }

// A beat has two words of the NPU; `at` is an even word.
static uint32_t beat_at(uint32_t at) { return MAIN_RAM_BASE + BASE + 2 * at; }

static void write_words(uint32_t at, const int16_t *words, unsigned count) {
  uint32_t beats[MOST_BEATS];
  for (unsigned i = 0; i < count / 2; i++)
    beats[i] = (uint16_t)words[2 * i] | (uint32_t)(uint16_t)words[2 * i + 1] << 16;
  write_bus(beat_at(at), beats, count / 2);
}

static void read_words(uint32_t at, int16_t *words, unsigned count) {
  uint32_t beats[MOST_BEATS];
  read_bus(beat_at(at), beats, count / 2);
  for (unsigned i = 0; i < count; i++) words[i] = (int16_t)(beats[i / 2] >> 16 * (i % 2));
}

// As LiteX's boot software does for a memory that needs no training; then whether the NPU is this design's.
static bool bring_up(void) {
  sdram_dfii_control_write(DFII_CONTROL_CKE | DFII_CONTROL_ODT | DFII_CONTROL_RESET_N);
  init_sequence();
  sdram_dfii_control_write(DFII_CONTROL_SEL);
  uint32_t digest;
  if (sscanf(FLUIDB_DESIGN_SHA256, "%8x", &digest) != 1) return false;
  const bool known = read_register(FLUIDB_ID) == FLUIDB_IS_ID && read_register(FLUIDB_VERSION) == FLUIDB_IS_VERSION &&
                     read_register(FLUIDB_DIGEST) == digest;
  write_register(FLUIDB_BASE, BASE);
  write_register(FLUIDB_RECORDS, RECORDS);
  write_register(FLUIDB_ENABLE, FLUIDB_EVENT_DONE | FLUIDB_EVENT_FAULT);
  return known && read_register(FLUIDB_STATUS) == FLUIDB_STATUS_IDLE;
}

// Whether a start ends at an exit, without a fault.
static bool run_to_exit(const struct step *step) {
  const uint32_t batch[] = {step->b_exit, step->b_incr, step->slot};
  write_bus(NPU_BASE + FLUIDB_B_EXIT, batch, 3);
  write_register(FLUIDB_CONTROL, step->strobes);
  uint32_t events = 0;
  for (int i = 0; i < POLLS && !events; i++) events = read_register(FLUIDB_EVENTS);
  write_register(FLUIDB_EVENTS, events);
  const uint32_t status = read_register(FLUIDB_STATUS);
  return events == FLUIDB_EVENT_DONE && status == (FLUIDB_STATUS_IDLE | FLUIDB_STATUS_AT_EXIT);
}

int drive(void) {
  if (!bring_up()) return 1;
  unsigned batch = 0, arrived = 0, at[FLUIDB_B_MAX] = {0};  // the sample at each place of the maps
  int wrong = 0;
  for (unsigned i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
    const struct step *step = &STEPS[i];
    for (unsigned j = 0; j < step->arrive; j++) {
      at[step->slot + j] = arrived;
      write_words(INPUTS_AT + (step->slot + j) * INPUTS_STRIDE, INPUTS[arrived++], INPUT_WORDS);
    }
    const bool ended = run_to_exit(step);
    batch += step->b_incr - step->b_exit;
    int words = 0;
    for (unsigned j = 0; j < batch; j++) {
      int16_t answer[ANSWER_WORDS];
      read_words(ANSWERS_AT[step->from] + (step->slot + j) * ANSWER_WORDS, answer, ANSWER_WORDS);
      for (int k = 0; k < ANSWER_WORDS; k++) words += answer[k] != ANSWERS[step->from][at[step->slot + j]][k];
    }
    const bool same = read_register(FLUIDB_B_ACT) == batch;
    const uint64_t table = FLUIDB_LATENCY_CYCLES[step->from][step->from + 1][batch];
    printf("ran %u %u %lu %d\n", step->from, batch, (unsigned long)table, words + !ended + !same);
    fflush(stdout);
    wrong += words + !ended + !same;
  }
  return wrong;
}
