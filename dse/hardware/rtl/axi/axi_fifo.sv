// A queue whose oldest value is there without a cycle's delay, for memories of LUTs.

`default_nettype none

module axi_fifo #(
    parameter int WIDTH = 1,
    parameter int DEPTH_BITS = 2
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                push,
    input  wire  [  WIDTH-1:0] last,
    input  wire                pop,
    output logic [  WIDTH-1:0] first,
    output logic               empty,
    output logic               full
);

  (* ram_style = "distributed" *) logic [WIDTH-1:0] held[1<<DEPTH_BITS];
  logic [DEPTH_BITS:0] pushed, popped;

  assign first = held[popped[DEPTH_BITS-1:0]];
  assign empty = pushed == popped;
  assign full  = pushed == {~popped[DEPTH_BITS], popped[DEPTH_BITS-1:0]};

  always_ff @(posedge clk) begin
    if (push) held[pushed[DEPTH_BITS-1:0]] <= last;
    pushed <= pushed + (DEPTH_BITS + 1)'(push);
    popped <= popped + (DEPTH_BITS + 1)'(pop);
    if (rst) {pushed, popped} <= '0;
  end

`ifndef SYNTHESIS
  always @(posedge clk)
    if (!rst) begin
      assert (!push || !full) else $fatal(1, "a queue overflows");
      assert (!pop || !empty) else $fatal(1, "a queue has nothing to give");
    end
`endif

endmodule

`default_nettype wire
