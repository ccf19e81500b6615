// Fluid Batching Control Block: the look-up table of the Fluid Batching Engine
// (Fluid Batching, Section III-A, Fig. 5).
//
// A register file: reset loads the design's entries, and the write port changes
// one at a time.  A batch of b samples on layer l finds its entry at address
// l * B_MAX + (b - 1).

`default_nettype none

module fbcb (
    input  wire                              clk,
    input  wire                              rst,  // synchronous, active high
    input  wire                              write,
    input  wire  [fbe_pkg::ADDRESS_BITS-1:0] write_address,
    input  wire  [  fbe_pkg::ENTRY_BITS-1:0] write_entry,
    input  wire  [fbe_pkg::ADDRESS_BITS-1:0] read_address,
    output logic [  fbe_pkg::ENTRY_BITS-1:0] read_entry
);

  localparam int LAYERS = fbe_pkg::LAYERS;
  localparam int B_MAX = fbe_pkg::B_MAX;
  localparam int ENTRY_BITS = fbe_pkg::ENTRY_BITS;
  localparam int ADDRESS_BITS = fbe_pkg::ADDRESS_BITS;
  localparam int ROW_BITS = B_MAX * ENTRY_BITS;
  localparam int STEP = 1 << $clog2(ENTRY_BITS);  // entries are read at powers of two: a product would take a DSP

  logic [LAYERS*B_MAX*STEP-1:0] entries;

  for (genvar layer = 0; layer < LAYERS; layer++) begin : gen_layer
    logic [ROW_BITS-1:0] row;

    always_ff @(posedge clk) begin
      if (rst) row <= fbe_pkg::fbcb_row(layer);
      else if (write) begin
        for (int i = 0; i < B_MAX; i++) begin
          if (write_address == ADDRESS_BITS'(layer * B_MAX + i)) row[i*ENTRY_BITS+:ENTRY_BITS] <= write_entry;
        end
      end
    end

    for (genvar i = 0; i < B_MAX; i++) begin : gen_entry
      assign entries[(layer*B_MAX+i)*STEP+:STEP] = STEP'(row[i*ENTRY_BITS+:ENTRY_BITS]);
    end
  end

  assign read_entry = entries[read_address*STEP+:ENTRY_BITS];

endmodule

`default_nettype wire
