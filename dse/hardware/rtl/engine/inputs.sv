// Input buffer: a bank for each inner row of a tile, two halves.
//
// The rows of samples side by side follow one another, `slot_rows` apart, and lie in N row banks in turn.
// That distance is V times an odd number, so the same V rows of each sample lie in other banks.  The 2 * T_P inner rows
// of half the length under k = 2 are otherwise T_P whole ones.

`default_nettype none

module inputs (
    input  wire                       clk,
    input  wire engine_pkg::code_t    k,
    input  wire                       one,        // words of a beat are of inner rows, not of rows
    input  wire engine_pkg::number_t  stride_x,   // words from a row to the next
    // verilator lint_off UNUSEDSIGNAL
    input  wire engine_pkg::number_t  slot_rows,
    // words of a beat, written within two cycles
    input  wire                       write,
    input  wire engine_pkg::load_t    beat,
    input  wire engine_pkg::beat_t    words,
    // V rows of all samples, from `row` on, four cycles later: [row][inner row][sample]
    input  wire                       half,
    input  wire engine_pkg::number_t  row,
    // verilator lint_on UNUSEDSIGNAL
    output      engine_pkg::pixels_t  x
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int T_P = engine_pkg::T_P;
  localparam int W = engine_pkg::W;
  localparam int N = engine_pkg::N;
  localparam int S = engine_pkg::S;
  localparam int V = engine_pkg::V;
  localparam int LINES = engine_pkg::HALF_LINES;
  localparam int LINE_BITS = $clog2(2 * LINES);
  localparam int ROW_BITS = engine_pkg::SIZE_BITS;

  logic two;
  assign two = k == engine_pkg::K_2;

  // Writing, first cycle: words turn to their row banks.
  logic wrote, wrote_half, wrote_one;
  engine_pkg::number_t wrote_p, wrote_end;
  logic [N*WORD-1:0] turned;
  logic [N*LINE_BITS-1:0] write_line;
  logic [N-1:0] enable;
  logic [WORD*W-1:0] held;

  always_ff @(posedge clk) begin
    wrote      <= write;
    wrote_half <= beat.half;
    wrote_one  <= one;
    wrote_p    <= beat.p;
    wrote_end  <= one ? beat.p + beat.count : beat.p + 1;
    held       <= words;
  end

  for (genvar m = 0; m < N; m++) begin : gen_turn
    engine_pkg::number_t i, word;
    assign i = (m - beat.row) % N;
    // i * stride_x, without a multiplier
    always_comb begin
      word = 0;
      for (int bit_ = 0; bit_ < $clog2(W + 1); bit_++) if (stride_x[bit_]) word = word + (i << bit_);
    end
    always_ff @(posedge clk) begin
      enable[m] <= one ? i == 0 : i < beat.count;
      turned[m*WORD+:WORD] <= beat.on_map[i%W] ? words[(word%W)*WORD+:WORD] : '0;
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
        if (NUMBER'(at[j*ROW_BITS+:ROW_BITS]) % N / V == m / V) begin
          read_line[m*LINE_BITS+:LINE_BITS] <= LINE_BITS'(NUMBER'(at[j*ROW_BITS+:ROW_BITS]) / N);
        end
      end
    end
  end

  logic [2*T_P*N*WORD-1:0] read;

  for (genvar p = 0; p < 2 * T_P; p++) begin : gen_p
    localparam bit UPPER = p >= T_P;
    engine_pkg::number_t own;  // under k = 2 an inner row of its own, else the later lines of another
    logic mine;
    assign own  = two ? p : p % T_P;
    assign mine = wrote && own >= wrote_p && own < wrote_end;

    for (genvar m = 0; m < N; m++) begin : gen_row
      logic [LINE_BITS-1:0] to, from;
      logic beyond;
      assign to     = write_line[m*LINE_BITS+:LINE_BITS];
      assign from   = read_line[m*LINE_BITS+:LINE_BITS];
      assign beyond = !two && NUMBER'(to) >= LINES;

      ram #(
          .WIDTH(WORD),
          .DEPTH(2 * LINES)
      ) bank (
          .clk,
          .write        (mine && enable[m] && (two || beyond == UPPER)),
          .write_address(LINE_BITS'(NUMBER'(to) - (beyond ? LINES : 0) + (wrote_half ? LINES : 0))),
          .write_data   (wrote_one ? held[(two ? p % W : p % T_P % W)*WORD+:WORD] : turned[m*WORD+:WORD]),
          .read_address (LINE_BITS'(NUMBER'(from) - (!two && NUMBER'(from) >= LINES ? LINES : 0) + (half_at[1] ? LINES : 0))),
          .read_data    (read[(p*N+m)*WORD+:WORD])
      );
    end

    for (genvar j = 0; j < S; j++) begin : gen_word
      engine_pkg::number_t place;
      assign place = NUMBER'(at_2[j*ROW_BITS+:ROW_BITS]);
      for (genvar v = 0; v < V; v++) begin : gen_of_row
        always_ff @(posedge clk) begin
          x[((v*2*T_P+p)*S+j)*WORD+:WORD] <=
              read[((!two && place / N >= LINES ? p % T_P + T_P : p) * N + place % N / V * V + v) * WORD+:WORD];
        end
      end
    end
  end

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  always @(posedge clk) begin
    if (write) begin
      assert (beat.p + (one ? beat.count : 1) <= (two ? 2 * T_P : T_P)) else $fatal(1, "an inner row without a bank");
      assert (beat.row + (one ? 1 : beat.count) <= (two ? LINES : 2 * LINES) * N) else $fatal(1, "rows beyond a half");
    end
  end
`endif

endmodule

`default_nettype wire
