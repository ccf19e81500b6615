// The address channel of the bridge: bursts of lines wait for the bus, each once it is whole.

`default_nettype none

module axi_bursts #(
    parameter int LINE_BITS = 31,  // of a line's address
    parameter int BYTE_BITS = 2,  // of a byte's place in a line
    parameter int BURST_BITS = 4,
    parameter int ADDRESS_BITS = 32  // of a byte's address
) (
    input  wire                     clk,
    input  wire                     rst,
    input  wire [ADDRESS_BITS-1:0]  base,   // of line 0
    input  wire                     push,
    input  wire [   LINE_BITS-1:0]  start,  // the first line of the burst
    input  wire [  BURST_BITS-1:0]  more,   // lines after it
    output logic                    full,

    output logic [ADDRESS_BITS-1:0] address,
    output logic [             7:0] length,
    output logic                    valid,
    input  wire                     ready
);

  logic none;
  logic [ADDRESS_BITS-1:0] start_address;

  assign start_address        = base + ADDRESS_BITS'({{ADDRESS_BITS{start[LINE_BITS-1]}}, start, BYTE_BITS'(0)});
  assign length[7:BURST_BITS] = '0;
  assign valid                = !none;

  axi_fifo #(
      .WIDTH     (ADDRESS_BITS + BURST_BITS),
      .DEPTH_BITS(2)
  ) bursts (
      .clk,
      .rst,
      .push,
      .last ({start_address, more}),
      .pop  (valid && ready),
      .first({address, length[BURST_BITS-1:0]}),
      .empty(none),
      .full
  );

endmodule

`default_nettype wire
