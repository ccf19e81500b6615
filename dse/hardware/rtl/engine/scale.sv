// A sum divided by 2**shift, to the nearest (halves up), saturated to a word.
//
// It shifts by multiples of FAR places, then of NEAR, then by 0 to NEAR - 1, each time keeping the bits that may still
// reach the output and one below the binary point.  Where the bits above them are not all the sign, the output saturates.

`default_nettype none

module scale (
    input  wire                     clk,
    input  wire engine_pkg::shift_t shift,
    input  wire engine_pkg::sum_t   sum,
    output      engine_pkg::word_t  out    // three cycles later
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int SUM = engine_pkg::SUM_BITS;
  localparam int SHIFT_BITS = engine_pkg::SHIFT_BITS;
  localparam int NEAR_BITS = 2;
  localparam int FAR_BITS = 4;  // bits of the shift below the multiples of FAR
  localparam int NEAR = 1 << NEAR_BITS;
  localparam int FAR = 1 << FAR_BITS;
  localparam int FARS = 1 << (SHIFT_BITS - FAR_BITS);  // multiples of FAR
  localparam int NEARS = FAR / NEAR;
  // bits that are kept after each shift
  localparam int FAR_KEPT = WORD + FAR;
  localparam int MIDDLE_KEPT = WORD + NEAR;
  localparam int NEAR_KEPT = WORD + 1;
  localparam int TOP = FARS * FAR + FAR_KEPT;
  localparam logic [WORD-1:0] LOWEST = 1 << (WORD - 1);

  logic [TOP-1:0] wide;  // the sum, one bit below the binary point, and its sign as far as a shift reaches
  logic [FAR_KEPT-1:0] far, far_now;
  logic [MIDDLE_KEPT-1:0] middle;
  logic [NEAR_KEPT-1:0] near, near_now, rounded;
  logic sign, far_over, far_over_now, middle_over, near_over, near_over_now, sign_now, sign_then;
  logic [FARS-1:0] far_overs;
  logic [NEARS-1:0] middle_overs;
  logic [NEAR-1:0] near_overs;

  assign sign = sum[SUM-1];
  assign wide = {{(TOP - SUM - 1) {sign}}, sum, 1'b0};

  for (genvar i = 0; i < FARS; i++) begin : gen_far
    if (i * FAR + FAR_KEPT <= SUM) begin : gen_over
      assign far_overs[i] = wide[SUM:i*FAR+FAR_KEPT-1] != {(SUM - i * FAR - FAR_KEPT + 2) {sign}};
    end else begin : gen_fits
      assign far_overs[i] = 1'b0;
    end
  end
  for (genvar i = 0; i < NEARS; i++) begin : gen_middle
    if (i * NEAR + MIDDLE_KEPT < FAR_KEPT) begin : gen_over
      assign middle_overs[i] = far_now[FAR_KEPT-1:i*NEAR+MIDDLE_KEPT-1]
          != {(FAR_KEPT - i * NEAR - MIDDLE_KEPT + 1) {far_now[FAR_KEPT-1]}};
    end else begin : gen_fits
      assign middle_overs[i] = 1'b0;
    end
  end
  for (genvar i = 0; i < NEAR; i++) begin : gen_near
    if (i + NEAR_KEPT < MIDDLE_KEPT) begin : gen_over
      assign near_overs[i] = middle[MIDDLE_KEPT-1:i+NEAR_KEPT-1] != {(MIDDLE_KEPT - i - NEAR_KEPT + 1) {middle[MIDDLE_KEPT-1]}};
    end else begin : gen_fits
      assign near_overs[i] = 1'b0;
    end
  end

  assign far         = wide[shift[SHIFT_BITS-1:FAR_BITS]*FAR+:FAR_KEPT];
  assign far_over    = far_overs[shift[SHIFT_BITS-1:FAR_BITS]];
  assign middle      = far_now[shift[FAR_BITS-1:NEAR_BITS]*NEAR+:MIDDLE_KEPT];
  assign middle_over = middle_overs[shift[FAR_BITS-1:NEAR_BITS]];
  assign near        = NEAR_KEPT'(middle >> shift[NEAR_BITS-1:0]);
  assign near_over   = near_overs[shift[NEAR_BITS-1:0]];
  assign rounded     = {near_now[WORD], near_now[WORD:1]} + NEAR_KEPT'(near_now[0]);

  always_ff @(posedge clk) begin
    far_now       <= far;
    far_over_now  <= far_over;
    sign_now      <= sign;
    near_now      <= near;
    near_over_now <= far_over_now || middle_over || near_over;
    sign_then     <= sign_now;
    if (near_over_now) out <= sign_then ? LOWEST : ~LOWEST;
    else if (rounded[WORD] != rounded[WORD-1]) out <= ~LOWEST;  // just below, rounded up
    else out <= rounded[WORD-1:0];
  end

endmodule

`default_nettype wire
