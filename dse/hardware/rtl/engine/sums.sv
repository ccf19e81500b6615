// The sums of an element, of every V-th row, over the tiles along P, and their outputs, scaled to words.

`default_nettype none

module sums #(
    parameter int BANK = 0,  // its first bank among all of the sums
    parameter bit MAXIMA = 1'b0  // the element has the column of a maximum pool
) (
    input  wire                        clk,
    input  wire                        maximum,
    input  wire engine_pkg::code_t     k,
    input  wire engine_pkg::shift_t    shift,
    input  wire                        valid,      // of the parts of a row, in this cycle
    input  wire                        first,      // they begin new sums
    // verilator lint_off UNUSEDSIGNAL
    input  wire engine_pkg::number_t   next_row,   // of the parts of the next cycle
    // verilator lint_on UNUSEDSIGNAL
    input  wire engine_pkg::sum_t      lower,
    input  wire engine_pkg::sum_t      upper,      // used under k = 1/2
    output      engine_pkg::word_t     out_lower,  // four cycles later
    output      engine_pkg::word_t     out_upper
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int ROWS = engine_pkg::SUM_ROWS;
  localparam int BITS = (ROWS > 1) ? $clog2(ROWS) : 1;

  // Rows beyond half of the most are in the other memory, except under k = 1/2, which has its second column there.
  logic two, beyond, beyond_now, beyond_then, valid_then;
  logic [BITS-1:0] at, at_now, at_then;
  engine_pkg::sum_t old_lower, old_upper, sum_lower, sum_upper, old;

  assign two    = k == engine_pkg::K_HALF;
  assign beyond = !two && next_row >= ROWS;
  assign at     = BITS'(next_row - (beyond ? ROWS : 0));
  assign old    = first ? '0 : beyond_now ? old_upper : old_lower;

  always_ff @(posedge clk) begin
    beyond_now  <= beyond;
    beyond_then <= beyond_now;
    at_now      <= at;
    at_then     <= at_now;
    valid_then  <= valid;
    sum_lower   <= (MAXIMA && maximum) ? engine_pkg::larger(lower[WORD-1:0], old[WORD-1:0]) : lower + old;
    sum_upper   <= upper + (first ? '0 : old_upper);
  end

  ram #(
      .WIDTH(engine_pkg::SUM_BITS),
      .DEPTH(ROWS),
      .STYLE(engine_pkg::STYLE_SUMS),
      .ULTRA(BANK < engine_pkg::ULTRA_SUMS)
  ) ram_lower (
      .clk,
      .write        (valid_then && !beyond_then),
      .write_address(at_then),
      .write_data   (sum_lower),
      .read_address (at),
      .read_data    (old_lower)
  );

  ram #(
      .WIDTH(engine_pkg::SUM_BITS),
      .DEPTH(ROWS),
      .STYLE(engine_pkg::STYLE_SUMS),
      .ULTRA(BANK + 1 < engine_pkg::ULTRA_SUMS)
  ) ram_upper (
      .clk,
      .write        (valid_then && (two || beyond_then)),
      .write_address(at_then),
      .write_data   (two ? sum_upper : sum_lower),
      .read_address (at),
      .read_data    (old_upper)
  );

  scale scale_lower (
      .clk,
      .shift,
      .sum(sum_lower),
      .out(out_lower)
  );

  scale scale_upper (
      .clk,
      .shift,
      .sum(sum_upper),
      .out(out_upper)
  );

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  engine_pkg::number_t now_row;
  always @(posedge clk) begin
    now_row <= next_row;
    if (valid) assert (now_row < (two ? ROWS : 2 * ROWS)) else $fatal(1, "a row beyond the sums");
  end
`endif

endmodule

`default_nettype wire
