// Processing element: T_P multipliers and two trees of adders, for the lower and the upper half of them.
//
// The first two elements find the largest product of a maximum pool, too, whose only column they have under each k.

`default_nettype none

module element #(
    parameter int E = 0
) (
    input  wire                   clk,
    // verilator lint_off UNUSEDSIGNAL
    input  wire                   maximum,
    // verilator lint_on UNUSEDSIGNAL
    input  wire engine_pkg::code_t    k,
    input  wire engine_pkg::inputs_t  x,
    input  wire                       moves,   // the multipliers take the weights, for the rows from here on
    input  wire engine_pkg::weights_t weight,
    input  wire engine_pkg::slots_t   slot,
    output      engine_pkg::sum_t     lower,   // after 2 + LEVELS cycles
    output      engine_pkg::sum_t     upper
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int SUM = engine_pkg::SUM_BITS;
  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int T_P = engine_pkg::T_P;
  localparam int LOWER = T_P / 2;
  localparam int S = engine_pkg::S;
  localparam int SLOT_BITS = engine_pkg::SLOT_BITS;
  localparam int LEVELS = engine_pkg::LEVELS;
  localparam int LEAVES = 1 << LEVELS;

  // verilator lint_off UNUSEDSIGNAL
  logic largest;  // without a level of sums nothing uses it
  // verilator lint_on UNUSEDSIGNAL
  assign largest = E < 2 && maximum;

  logic [LEAVES*SUM-1:0] low, high;  // products

  for (genvar i = 0; i < 2 * LEAVES; i++) begin : gen_leaf
    localparam int UPPER = (i >= LEAVES) ? 1 : 0;
    localparam int LEAF = i - UPPER * LEAVES;
    localparam int M = LEAF + UPPER * LOWER;  // multiplier
    engine_pkg::sum_t leaf;

    if (M < ((UPPER == 1) ? T_P : LOWER)) begin : gen_multiplier
      logic signed [WORD-1:0] a, b;
      logic signed [2*WORD-1:0] product;
      engine_pkg::number_t p;
      assign p = (k == engine_pkg::K_2) ? M + (E % 2) * T_P : (k == engine_pkg::K_HALF) ? M - UPPER * LOWER : M;
      always_ff @(posedge clk) begin
        a <= x[(p*S+NUMBER'(slot[UPPER*SLOT_BITS+:SLOT_BITS]))*WORD+:WORD];
        if (moves) b <= weight[M*WORD+:WORD];
        product <= a * b;
      end
      assign leaf = {{(SUM - 2 * WORD){product[2*WORD-1]}}, product};
    end else begin : gen_none
      assign leaf = '0;
    end

    if (UPPER == 1) begin : gen_high
      assign high[LEAF*SUM+:SUM] = leaf;
    end else begin : gen_low
      assign low[LEAF*SUM+:SUM] = leaf;
    end
  end

  // Level l has LEAVES / 2**l sums.
  for (genvar l = 0; l <= LEVELS; l++) begin : gen_level
    localparam int SUMS = LEAVES >> l;
    logic [SUMS*SUM-1:0] l_low, l_high;
    if (l == 0) begin : gen_products
      assign l_low  = low;
      assign l_high = high;
    end else begin : gen_sums
      for (genvar i = 0; i < SUMS; i++) begin : gen_sum
        engine_pkg::sum_t low_0, low_1, high_0, high_1;
        assign {low_1, low_0}   = gen_level[l-1].l_low[2*i*SUM+:2*SUM];
        assign {high_1, high_0} = gen_level[l-1].l_high[2*i*SUM+:2*SUM];
        always_ff @(posedge clk) begin
          l_low[i*SUM+:SUM]  <= largest ? engine_pkg::larger(low_0[WORD-1:0], low_1[WORD-1:0]) : low_0 + low_1;
          l_high[i*SUM+:SUM] <= largest ? engine_pkg::larger(high_0[WORD-1:0], high_1[WORD-1:0]) : high_0 + high_1;
        end
      end
    end
  end

  assign lower = gen_level[LEVELS].l_low;
  assign upper = gen_level[LEVELS].l_high;

endmodule

`default_nettype wire
