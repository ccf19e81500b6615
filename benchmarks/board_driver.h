// What the host's software needs of its serial port, and what it is asked to run.

#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void serial_send(uint8_t byte);
uint8_t serial_receive(void);
void wait_cycles(int cycles);  // at least; of the board's clock

// Brings the board up, runs every batch of run.h and prints a line for each; returns how much was wrong.
int drive(void);

#ifdef __cplusplus
}
#endif
