// LiteX's system for a ULX3S, without the pins of its memory; and what is counted of the NPU in it.

`default_nettype none

module board_bench (
    input  wire  clk,        // of the system: its PLL is not there
    input  wire  rst,
    input  wire  serial_rx,
    output logic serial_tx,
    output logic start,
    output logic done        // the interrupt
);

  ulx3s ulx3s (
      .clk25(clk),
      .rst,
      .serial_rx,
      .serial_tx
  );

  assign start = ulx3s.npu_axi.npu_bus.start;
  assign done  = ulx3s.npu_axi.npu_bus.interrupt;

endmodule

`default_nettype wire
