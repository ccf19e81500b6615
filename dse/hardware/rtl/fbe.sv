// Fluid Batching Engine: the control block and its control unit
// (Fluid Batching, Section III-A, Fig. 5).
//
// The control unit keeps the active batch size and the active layer.  2 + COUNT_BITS
// clock edges after a change of either, it states how the NPU is to run that layer: stacking k, blocks of rows, B_R samples down the rows,
// B_P side by side, in a number of passes.

`default_nettype none

module fbe (
    input  wire                              clk,
    input  wire                              rst,  // synchronous, active high

    // the batch: B_act <= B_act - B_exit + B_incr
    input  wire                              update,
    input  wire  [  fbe_pkg::COUNT_BITS-1:0] b_exit,
    input  wire  [  fbe_pkg::COUNT_BITS-1:0] b_incr,

    // the layer: back to the first, or on to the next; the first follows the last
    input  wire                              restart,
    input  wire                              advance,

    // an entry in place of the one that reset loads
    input  wire                              write,
    input  wire  [fbe_pkg::ADDRESS_BITS-1:0] write_address,
    input  wire  [  fbe_pkg::ENTRY_BITS-1:0] write_entry,

    output logic [  fbe_pkg::COUNT_BITS-1:0] b_act,
    output logic [  fbe_pkg::LAYER_BITS-1:0] layer,
    output logic [fbe_pkg::ADDRESS_BITS-1:0] number,  // of the entry of both, an edge later
    output logic                             fault,  // an update was out of range since reset

    // how to run this layer with this batch
    output logic                             valid,
    output logic [      fbe_pkg::K_BITS-1:0] k,
    output logic [ fbe_pkg::BLOCK_WIDTH-1:0] blocks,  // code of the number of blocks of rows
    output logic [  fbe_pkg::COUNT_BITS-1:0] b_r,
    output logic [  fbe_pkg::COUNT_BITS-1:0] b_p,
    output logic [  fbe_pkg::COUNT_BITS-1:0] b_last,  // samples down the last of the B_P columns
    output logic [  fbe_pkg::COUNT_BITS-1:0] passes
);

  localparam int B_MAX = fbe_pkg::B_MAX;
  localparam int K_BITS = fbe_pkg::K_BITS;
  localparam int BLOCK_BITS = fbe_pkg::BLOCK_BITS;
  localparam int BLOCK_WIDTH = fbe_pkg::BLOCK_WIDTH;
  localparam int BATCH_BITS = fbe_pkg::BATCH_BITS;
  localparam int ENTRY_BITS = fbe_pkg::ENTRY_BITS;
  localparam int ADDRESS_BITS = fbe_pkg::ADDRESS_BITS;
  localparam int COUNT_BITS = fbe_pkg::COUNT_BITS;
  localparam int LAYER_BITS = fbe_pkg::LAYER_BITS;
  localparam logic [LAYER_BITS-1:0] LAST_LAYER = LAYER_BITS'(fbe_pkg::LAYERS - 1);

  // Active batch.  More exits than samples leave none, more samples than B_MAX leave B_MAX.
  logic too_few, too_many;
  logic [COUNT_BITS-1:0] remaining;
  logic [COUNT_BITS:0] merged;

  assign too_few   = b_exit > b_act;
  assign remaining = too_few ? '0 : b_act - b_exit;
  assign merged    = {1'b0, remaining} + {1'b0, b_incr};
  assign too_many  = merged > (COUNT_BITS + 1)'(B_MAX);

  always_ff @(posedge clk) begin
    if (rst) begin
      b_act <= '0;
      fault <= 1'b0;
    end else if (update) begin
      b_act <= too_many ? COUNT_BITS'(B_MAX) : merged[COUNT_BITS-1:0];
      fault <= fault || too_few || too_many;
    end
  end

  // Active layer.
  always_ff @(posedge clk) begin
    if (rst || restart) layer <= '0;
    else if (advance) layer <= (layer == LAST_LAYER) ? '0 : layer + 1'b1;
  end

  // The entry of both; without samples the first of the layer, which is then not valid.
  logic [COUNT_BITS-1:0] last;  // b - 1
  logic [ENTRY_BITS-1:0] read_entry, entry;
  logic changes;
  logic [ADDRESS_BITS-1:0] place;

  assign last = (b_act == '0) ? '0 : b_act - 1'b1;

  always_comb begin  // layer * B_MAX + last, by additions: DSPs are for the engine
    place = ADDRESS_BITS'(last);
    for (int i = 0; i < COUNT_BITS; i++) if (((B_MAX >> i) & 1) != 0) place = place + (ADDRESS_BITS'(layer) << i);
  end

  fbcb control_block (
      .clk          (clk),
      .rst          (rst),
      .write        (write),
      .write_address(write_address),
      .write_entry  (write_entry),
      .read_address (number),
      .read_entry   (read_entry)
  );

  // Clock edges since the last strobe, up to those after which the layout is there: one for the number of the entry, one to
  // fetch it, one for each bit of a count of samples to derive B_P.
  localparam int EDGES = 2 + COUNT_BITS;
  localparam int AGE_BITS = $clog2(EDGES + 1);
  logic [AGE_BITS-1:0] age;

  assign changes = rst || update || restart || advance || write;

  always_ff @(posedge clk) begin
    number <= place;
    entry  <= read_entry;
    age    <= changes ? '0 : (age == AGE_BITS'(EDGES)) ? age : age + 1'b1;
    valid  <= !changes && age >= AGE_BITS'(EDGES - 1) && b_act != '0;
  end

  // B_P = ceil(b / B_R) = floor((b - 1) / B_R) + 1, without a divider: one bit of the quotient an edge, the highest first,
  // each a comparison and a subtraction.
  logic [COUNT_BITS-1:0] rows, quotient, rest;
  logic [2*COUNT_BITS-1:0] part;
  logic divides, holds, one_by_one;

  assign rows    = COUNT_BITS'(entry & ENTRY_BITS'((1 << BATCH_BITS) - 1)) + 1'b1;
  assign divides = age >= AGE_BITS'(2) && age != AGE_BITS'(EDGES);
  assign part    = (2 * COUNT_BITS)'(rows) << (AGE_BITS'(EDGES - 1) - age);
  assign holds   = (2 * COUNT_BITS)'(rest) >= part;

  always_ff @(posedge clk) begin
    one_by_one <= fbe_pkg::ONE_BY_ONE[layer];
    if (age < AGE_BITS'(2)) begin
      rest     <= last;
      quotient <= '0;
    end else if (divides) begin
      if (holds) rest <= rest - part[COUNT_BITS-1:0];
      quotient <= COUNT_BITS'({quotient, holds});
    end
  end

  assign k      = entry[ENTRY_BITS-1-:K_BITS];
  assign blocks = BLOCK_WIDTH'((entry >> BATCH_BITS) & ENTRY_BITS'((1 << BLOCK_BITS) - 1));
  assign b_r    = rows;
  assign b_p    = one_by_one ? COUNT_BITS'(1)
      : fbe_pkg::EQUATION_1 ? b_act - rows + 1'b1  // as printed
      : quotient + 1'b1;
  assign b_last = rest + 1'b1;
  assign passes = one_by_one ? b_act : COUNT_BITS'(1);

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  localparam int ENTRIES = fbe_pkg::LAYERS * B_MAX;
  logic known = 1'b0;  // it was reset
  always @(posedge clk) begin
    if (rst) known <= 1'b1;
    if (known && !rst) begin
      assert (int'(b_act) <= B_MAX) else $fatal(1, "b_act is at most B_MAX");
      assert (int'(layer) < fbe_pkg::LAYERS) else $fatal(1, "a layer beyond the last");
      assert (age == '0 || int'(number) < ENTRIES) else $fatal(1, "an entry beyond the last");
      assert (!valid || (b_act != '0 && b_r != '0 && b_last != '0 && passes != '0)) else $fatal(1, "a layout without samples");
      assert (!valid || passes != COUNT_BITS'(1) || fbe_pkg::EQUATION_1
          || (int'(b_r) * (int'(b_p) - 1) + int'(b_last) == int'(b_act) && int'(b_last) <= int'(b_r))) else $fatal(1, "a layout of other samples");
    end
  end
`endif

endmodule

`default_nettype wire
