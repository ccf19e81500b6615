// A memory with one port to write and one to read, whose word follows a cycle after its address.

`default_nettype none

module ram #(
    parameter int WIDTH = 1,
    parameter int DEPTH = 1,
    // verilator lint_off UNUSEDPARAM
    parameter STYLE = "auto",  // where a synthesis is to place it, unless
    parameter bit ULTRA = 0,   // in UltraRAMs
    // verilator lint_on UNUSEDPARAM
    localparam int BITS = (DEPTH > 1) ? $clog2(DEPTH) : 1
) (
    input  wire              clk,
    input  wire              write,
    input  wire  [ BITS-1:0] write_address,
    input  wire  [WIDTH-1:0] write_data,
    input  wire  [ BITS-1:0] read_address,
    output logic [WIDTH-1:0] read_data
);

  (* ram_style = ULTRA ? "ultra" : STYLE *) logic [WIDTH-1:0] words[DEPTH];

  always_ff @(posedge clk) begin
    if (write) words[write_address] <= write_data;
    read_data <= words[read_address];
  end

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  always @(posedge clk) if (write) assert (int'(write_address) < DEPTH) else $fatal(1, "an address beyond the rows");
`endif

endmodule

`default_nettype wire
