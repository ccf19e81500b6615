// Input buffer: a bank for each inner row of a tile, two halves.
//
// The rows of samples side by side follow one another, `slot_rows` apart, and lie in N row banks in turn.
// That distance is V times an odd number, so the same V rows of each sample lie in other banks.  The 2 * T_P inner rows
// of half the length under k = 2 are otherwise T_P whole ones.

`default_nettype none

module inputs (
    input  wire                                               clk,
    input  wire  [                                       1:0] k,
    input  wire                                               one,        // words of a beat are of inner rows, not of rows
    input  wire  [                                      31:0] stride_x,   // from the word of a row to that of the next
    // verilator lint_off UNUSEDSIGNAL
    input  wire  [                                      31:0] slot_rows,
    // words of a beat, written within two cycles
    input  wire                                               write,
    input  wire  engine_pkg::load_t                           beat,
    input  wire  [                      16*engine_pkg::W-1:0] words,
    // V rows of all samples, from `row` on, four cycles later: [row][inner row][sample]
    input  wire                                               half,
    input  wire  [                                      31:0] row,
    // verilator lint_on UNUSEDSIGNAL
    output logic [engine_pkg::V*2*engine_pkg::T_P*engine_pkg::S*16-1:0] x
);

  localparam int T_P = engine_pkg::T_P;
  localparam int W = engine_pkg::W;
  localparam int N = engine_pkg::N;
  localparam int S = engine_pkg::S;
  localparam int V = engine_pkg::V;
  localparam int LINES = engine_pkg::HALF_LINES;
  localparam int LINE_BITS = $clog2(2 * LINES);
  localparam int ROW_BITS = 16;

  logic two;
  assign two = k == engine_pkg::K_TWO;

  // Writing, first cycle: words turn to their row banks.
  logic wrote, wrote_half, wrote_one;
  logic [31:0] wrote_p, wrote_end;
  logic [N*16-1:0] turned;
  logic [N*LINE_BITS-1:0] write_line;
  logic [N-1:0] enable;
  logic [16*W-1:0] held;

  always_ff @(posedge clk) begin
    wrote      <= write;
    wrote_half <= beat.half;
    wrote_one  <= one;
    wrote_p    <= beat.p;
    wrote_end  <= one ? beat.p + beat.count : beat.p + 1;
    held       <= words;
  end

  for (genvar m = 0; m < N; m++) begin : gen_turn
    logic [31:0] i, word;
    assign i = (m - beat.row) % N;
    // i * stride_x, without a multiplier
    always_comb begin
      word = 0;
      for (int bit_ = 0; bit_ < $clog2(W + 1); bit_++) if (stride_x[bit_]) word = word + (i << bit_);
    end
    always_ff @(posedge clk) begin
      enable[m] <= one ? i == 0 : i < beat.count;
      turned[m*16+:16] <= beat.on_map[i%W] ? words[(word%W)*16+:16] : '0;
      write_line[m*LINE_BITS+:LINE_BITS] <= LINE_BITS'((beat.row + i) / N);
    end
  end

  // Reading: places of the samples, multiples of V; lines of the row banks; their words; V words of each sample.
  logic [S*ROW_BITS-1:0] at, at_1, at_2;
  logic [N*LINE_BITS-1:0] read_line;
  logic [1:0] half_at;

  for (genvar j = 0; j < S; j++) begin : gen_place
    logic [ROW_BITS-1:0] base;
    if (j == 0) begin : gen_first
      assign base = '0;
    end else begin : gen_next
      assign base = gen_place[j-1].base + slot_rows[ROW_BITS-1:0];
    end
    always_ff @(posedge clk) at[j*ROW_BITS+:ROW_BITS] <= base + row[ROW_BITS-1:0];
  end

  always_ff @(posedge clk) begin
    at_1    <= at;
    at_2    <= at_1;
    half_at <= {half_at[0], half};
    for (int m = 0; m < N; m++) begin
      for (int j = S - 1; j >= 0; j--) begin
        if (32'(at[j*ROW_BITS+:ROW_BITS]) % N / V == m / V) begin
          read_line[m*LINE_BITS+:LINE_BITS] <= LINE_BITS'(32'(at[j*ROW_BITS+:ROW_BITS]) / N);
        end
      end
    end
  end

  logic [2*T_P*N*16-1:0] read;

  for (genvar p = 0; p < 2 * T_P; p++) begin : gen_p
    localparam bit UPPER = p >= T_P;
    logic [31:0] own;  // under k = 2 an inner row of its own, else the later lines of another
    logic mine;
    assign own  = two ? p : p % T_P;
    assign mine = wrote && own >= wrote_p && own < wrote_end;

    for (genvar m = 0; m < N; m++) begin : gen_row
      logic [LINE_BITS-1:0] to, from;
      logic beyond;
      assign to     = write_line[m*LINE_BITS+:LINE_BITS];
      assign from   = read_line[m*LINE_BITS+:LINE_BITS];
      assign beyond = !two && 32'(to) >= LINES;

      ram #(
          .WIDTH(16),
          .DEPTH(2 * LINES)
      ) bank (
          .clk,
          .write        (mine && enable[m] && (two || beyond == UPPER)),
          .write_address(LINE_BITS'(32'(to) - (beyond ? LINES : 0) + (wrote_half ? LINES : 0))),
          .write_data   (wrote_one ? held[(two ? p % W : p % T_P % W)*16+:16] : turned[m*16+:16]),
          .read_address (LINE_BITS'(32'(from) - (!two && 32'(from) >= LINES ? LINES : 0) + (half_at[1] ? LINES : 0))),
          .read_data    (read[(p*N+m)*16+:16])
      );
    end

    for (genvar j = 0; j < S; j++) begin : gen_word
      logic [31:0] place;
      assign place = 32'(at_2[j*ROW_BITS+:ROW_BITS]);
      for (genvar v = 0; v < V; v++) begin : gen_of_row
        always_ff @(posedge clk) begin
          x[((v*2*T_P+p)*S+j)*16+:16] <=
              read[((!two && place / N >= LINES ? p % T_P + T_P : p) * N + place % N / V * V + v) * 16+:16];
        end
      end
    end
  end

endmodule

`default_nettype wire
