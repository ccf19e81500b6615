// Processing element: T_P multipliers and two trees of adders, for the lower and the upper half of them.

`default_nettype none

module element #(
    parameter int E = 0
) (
    input  wire                                           clk,
    input  wire  [                                   1:0] k,
    input  wire  [2*engine_pkg::T_P*engine_pkg::S*16-1:0] x,       // [inner row][sample]
    input  wire  [              16*engine_pkg::T_P-1:0]   weight,
    input  wire  [         2*engine_pkg::SLOT_BITS-1:0]   slot,
    output logic [                                  47:0] lower,   // after 2 + LEVELS cycles
    output logic [                                  47:0] upper
);

  localparam int T_P = engine_pkg::T_P;
  localparam int LOWER = T_P / 2;
  localparam int S = engine_pkg::S;
  localparam int SLOT_BITS = engine_pkg::SLOT_BITS;
  localparam int LEVELS = engine_pkg::LEVELS;
  localparam int LEAVES = 1 << LEVELS;

  logic [LEAVES*48-1:0] low, high;  // products

  for (genvar i = 0; i < 2 * LEAVES; i++) begin : gen_leaf
    localparam int UPPER = (i >= LEAVES) ? 1 : 0;
    localparam int LEAF = i - UPPER * LEAVES;
    localparam int M = LEAF + UPPER * LOWER;  // multiplier
    logic [47:0] leaf;

    if (M < ((UPPER == 1) ? T_P : LOWER)) begin : gen_multiplier
      logic signed [15:0] a, b;
      logic signed [31:0] product;
      logic [31:0] p;
      assign p = (k == engine_pkg::K_TWO) ? M + (E % 2) * T_P : (k == engine_pkg::K_HALF) ? M - UPPER * LOWER : M;
      always_ff @(posedge clk) begin
        a <= x[(p*S+32'(slot[UPPER*SLOT_BITS+:SLOT_BITS]))*16+:16];
        b <= weight[M*16+:16];
        product <= a * b;
      end
      assign leaf = {{16{product[31]}}, product};
    end else begin : gen_none
      assign leaf = '0;
    end

    if (UPPER == 1) begin : gen_high
      assign high[LEAF*48+:48] = leaf;
    end else begin : gen_low
      assign low[LEAF*48+:48] = leaf;
    end
  end

  // Level l has LEAVES / 2**l sums.
  for (genvar l = 0; l <= LEVELS; l++) begin : gen_level
    localparam int SUMS = LEAVES >> l;
    logic [SUMS*48-1:0] l_low, l_high;
    if (l == 0) begin : gen_products
      assign l_low  = low;
      assign l_high = high;
    end else begin : gen_sums
      for (genvar i = 0; i < SUMS; i++) begin : gen_sum
        always_ff @(posedge clk) begin
          l_low[i*48+:48]  <= gen_level[l-1].l_low[2*i*48+:48] + gen_level[l-1].l_low[(2*i+1)*48+:48];
          l_high[i*48+:48] <= gen_level[l-1].l_high[2*i*48+:48] + gen_level[l-1].l_high[(2*i+1)*48+:48];
        end
      end
    end
  end

  assign lower = gen_level[LEVELS].l_low;
  assign upper = gen_level[LEVELS].l_high;

endmodule

`default_nettype wire
