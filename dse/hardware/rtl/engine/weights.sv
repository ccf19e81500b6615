// The weights of an element, two halves, and which of the samples side by side it works on.
//
// Under k = 1/2 the element works as two, on columns 2 * E and 2 * E + 1; under k = 2 two neighbours work as one.

`default_nettype none

module weights #(
    parameter int E = 0
) (
    input  wire                       clk,
    input  wire engine_pkg::code_t    k,
    // words of a beat, written within two cycles
    // verilator lint_off UNUSEDSIGNAL
    input  wire                       write,
    input  wire engine_pkg::load_t    beat,
    input  wire engine_pkg::tile_t    tile,
    // verilator lint_on UNUSEDSIGNAL
    input  wire engine_pkg::beat_t    words,
    input  wire                       half,
    output      engine_pkg::weights_t weight,
    output      engine_pkg::slots_t   slot     // of the lower and of the upper multipliers
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int T_P = engine_pkg::T_P;
  localparam int LOWER = T_P / 2;
  localparam int P_BITS = $clog2(2 * T_P + 1);
  localparam int BITS = engine_pkg::SIZE_BITS;  // of columns
  localparam int W = engine_pkg::W;
  localparam int S = engine_pkg::S;
  localparam int SLOT_BITS = engine_pkg::SLOT_BITS;

  // First cycle: the column that the beat holds for this element, if any.
  logic wrote, wrote_half, wrote_first, as_two, of_two;
  logic [P_BITS-1:0] wrote_p;
  logic [1:0] hit;
  engine_pkg::number_t word;
  logic [2*SLOT_BITS-1:0] place;

  assign as_two = k == engine_pkg::K_HALF;
  assign of_two = k == engine_pkg::K_2;

  always_ff @(posedge clk) begin
    wrote       <= write;
    wrote_half  <= beat.half;
    wrote_first <= beat.first;
    wrote_p     <= beat.p[P_BITS-1:0];
  end

  for (genvar upper = 0; upper < 2; upper++) begin : gen_column
    logic [BITS-1:0] column, begins, at;  // begins: the column of the tile at which its sample's first column is
    logic [SLOT_BITS-1:0] of;
    assign column = as_two ? BITS'(2 * E + upper) : of_two ? BITS'(E / 2) : BITS'(E);
    always_comb begin
      begins = -tile.column[BITS-1:0];
      of = '0;
      for (int j = 0; j < S - 1; j++) begin
        if (column >= tile.ends[j*NUMBER+:BITS]) begin
          of = of + 1'b1;
          begins = tile.ends[j*NUMBER+:BITS];
        end
      end
      at = column - begins - beat.column[BITS-1:0];
    end
    always_ff @(posedge clk) begin
      hit[upper] <= at < beat.count[BITS-1:0];
      word[upper*WORD+:WORD] <= words[(NUMBER'(at)%W)*WORD+:WORD];
      place[upper*SLOT_BITS+:SLOT_BITS] <= of;
    end
  end

  logic [2*T_P*WORD-1:0] held;
  logic [2*2*SLOT_BITS-1:0] held_slot;

  // Under k = 1/2 the last multiplier of an odd T_P has no inner row, so its weight stays 0.
  for (genvar h = 0; h < 2; h++) begin : gen_half
    logic mine;
    assign mine = wrote && wrote_half == (h == 1);
    always_ff @(posedge clk) if (mine && wrote_first) held_slot[h*2*SLOT_BITS+:2*SLOT_BITS] <= place;

    for (genvar i = 0; i < T_P; i++) begin : gen_weight
      localparam int UPPER = (i >= LOWER) ? 1 : 0;
      logic [P_BITS-1:0] p;
      assign p = of_two ? P_BITS'(i + (E % 2) * T_P) : as_two ? P_BITS'(i - UPPER * LOWER) : P_BITS'(i);
      logic here;
      assign here = p == wrote_p && hit[UPPER];
      always_ff @(posedge clk) begin
        if (mine && wrote_first && !here) held[(h*T_P+i)*WORD+:WORD] <= '0;  // inner rows that the tile may not have
        else if (mine && here) held[(h*T_P+i)*WORD+:WORD] <= word[UPPER*WORD+:WORD];
      end
    end
  end

  assign weight = half ? held[T_P*WORD+:T_P*WORD] : held[0+:T_P*WORD];
  assign slot   = half ? held_slot[2*SLOT_BITS+:2*SLOT_BITS] : held_slot[0+:2*SLOT_BITS];

endmodule

`default_nettype wire
