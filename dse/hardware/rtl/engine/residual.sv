// A residual map is added to the words of a beat: the words of either move to the left, and their sum is divided by
// 2**right, to the nearest (halves up).  The words of the map wait here for the store that adds to them.

`default_nettype none

module residual (
    input  wire                         clk,
    input  wire                         start,
    // verilator lint_off UNUSEDSIGNAL
    input  wire engine_pkg::number_t    addition,  // an engine_pkg::addition_t
    // verilator lint_on UNUSEDSIGNAL
    input  wire                         comes,     // words of the map do
    input  wire engine_pkg::beat_t      read_words,
    input  wire                         pops,      // in the cycle before its `words`
    input  wire engine_pkg::beat_t      words,     // of the layer
    output      engine_pkg::residuals_t sums       // four cycles later
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int SUM = engine_pkg::RESIDUAL_BITS;
  localparam int AHEAD_BITS = engine_pkg::AHEAD_BITS;

  logic [AHEAD_BITS-1:0] written_at, read_at;
  engine_pkg::beat_t from_ram, read, added;
  engine_pkg::addition_t of;

  ram #(
      .WIDTH(WORD * engine_pkg::W),
      .DEPTH(1 << AHEAD_BITS),
      .STYLE(engine_pkg::STYLE_RESIDUALS),
      .ULTRA(engine_pkg::ULTRA_RESIDUALS > 0)
  ) waiting (
      .clk,
      .write        (comes),
      .write_address(written_at),
      .write_data   (read_words),
      .read_address (read_at),
      .read_data    (from_ram)
  );

  always_ff @(posedge clk) begin
    of    <= addition[engine_pkg::ADDITION_BITS-1:0];
    read  <= from_ram;  // a memory's word comes late in its cycle
    added <= words;
    if (comes) written_at <= written_at + 1'b1;
    if (pops && of.adds) read_at <= read_at + 1'b1;
    if (start) {written_at, read_at} <= '0;
  end

  for (genvar i = 0; i < engine_pkg::W; i++) begin : gen_word
    logic [WORD-1:0] other, moves, stays, stayed;
    logic [SUM-1:0] moved, sum;
    logic [SUM:0] right;
    assign other = of.adds ? read[i*WORD+:WORD] : '0;
    assign moves = of.residual_moves ? other : added[i*WORD+:WORD];
    assign stays = of.residual_moves ? added[i*WORD+:WORD] : other;
    always_ff @(posedge clk) begin
      moved  <= {{(SUM - WORD) {moves[WORD-1]}}, moves} << of.left;
      stayed <= stays;
      sum    <= moved + {{(SUM - WORD) {stayed[WORD-1]}}, stayed};
      right  <= $signed({sum, 1'b0}) >>> of.right;  // with a bit below the binary point
    end
    assign sums[i*SUM+:SUM] = right[SUM:1] + SUM'(right[0]);
  end

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  logic [AHEAD_BITS:0] held;
  always @(posedge clk) begin
    held <= start ? '0 : held + (AHEAD_BITS + 1)'(comes) - (AHEAD_BITS + 1)'(pops && of.adds);
    if (!start && of.adds) begin
      assert (!comes || !held[AHEAD_BITS]) else $fatal(1, "residual words are overwritten");
      assert (!pops || held != 0) else $fatal(1, "residual words that have not come are added");
      assert (AHEAD_BITS'(held) == AHEAD_BITS'(written_at - read_at)) else $fatal(1, "places of residual words");
    end
  end
`endif

endmodule

`default_nettype wire
