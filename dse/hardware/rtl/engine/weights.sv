// The weights of an element, while they are loaded, and which of the samples side by side it works on.
//
// Its multipliers have them from `moves` on, in registers that a DSP has: so the weights of the next tile can be loaded.
//
// Under k = 1/2 the element works as two, on columns 2 * E and 2 * E + 1; under k = 2 two neighbours work as one.

`default_nettype none

module weights #(
    parameter int E = 0
) (
    input  wire                       clk,
    input  wire engine_pkg::code_t    k,
    // verilator lint_off UNUSEDSIGNAL
    // first cycle of a beat: where each sample ends, in columns of the tile
    input  wire engine_pkg::columns_t ends,
    // second cycle: where the beat begins if it is of that sample, and W columns more; how many words it has
    input  wire engine_pkg::columns_t begins,
    input  wire engine_pkg::column_t  count,
    // third cycle: its words, which are written
    input  wire                       write,
    input  wire engine_pkg::load_t    beat,
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
  localparam int BITS = engine_pkg::COLUMN_BITS + 1;
  localparam int W = engine_pkg::W;
  localparam int PLACE_BITS = (W > 1) ? $clog2(W) : 1;
  localparam int S = engine_pkg::S;
  localparam int SLOT_BITS = engine_pkg::SLOT_BITS;

  logic as_two, of_two;
  assign as_two = k == engine_pkg::K_HALF;
  assign of_two = k == engine_pkg::K_2;

  // The columns that the element works on: the sample of each, and the word that the beat holds for it, if any.
  logic [1:0] hit;
  logic [2*WORD-1:0] word;
  logic [2*SLOT_BITS-1:0] place;

  for (genvar upper = 0; upper < 2; upper++) begin : gen_column
    engine_pkg::column_t column, at;
    logic [SLOT_BITS-1:0] sample, sample_now;
    logic [PLACE_BITS-1:0] at_now;
    assign at = column + BITS'(W) - begins[sample_now*BITS+:BITS];
    always_comb begin
      sample = '0;
      for (int j = 0; j < S - 1; j++) if (column >= ends[j*BITS+:BITS]) sample = SLOT_BITS'(j + 1);
    end
    always_ff @(posedge clk) begin
      column      <= as_two ? BITS'(2 * E + upper) : of_two ? BITS'(E / 2) : BITS'(E);
      sample_now  <= sample;
      hit[upper]  <= at < count;
      at_now      <= PLACE_BITS'(NUMBER'(at) % W);
      place[upper*SLOT_BITS+:SLOT_BITS] <= sample_now;
    end
    assign word[upper*WORD+:WORD] = words[at_now*WORD+:WORD];
  end

  // Under k = 1/2 the last multiplier of an odd T_P has no inner row, so its weight stays 0.
  for (genvar i = 0; i < T_P; i++) begin : gen_weight
    localparam int UPPER = (i >= LOWER) ? 1 : 0;
    logic [P_BITS-1:0] p;
    logic here;
    assign p    = of_two ? P_BITS'(i + (E % 2) * T_P) : as_two ? P_BITS'(i - UPPER * LOWER) : P_BITS'(i);
    assign here = p == beat.p[P_BITS-1:0] && hit[UPPER];
    always_ff @(posedge clk) begin
      if (write && beat.first && !here) weight[i*WORD+:WORD] <= '0;  // inner rows that the tile may not have
      else if (write && here) weight[i*WORD+:WORD] <= word[UPPER*WORD+:WORD];
    end
  end

  logic [2*2*SLOT_BITS-1:0] slots;  // of both halves of the input buffer
  always_ff @(posedge clk) if (write && beat.first) slots[beat.half*2*SLOT_BITS+:2*SLOT_BITS] <= place;
  assign slot = half ? slots[2*SLOT_BITS+:2*SLOT_BITS] : slots[0+:2*SLOT_BITS];

endmodule

`default_nettype wire
