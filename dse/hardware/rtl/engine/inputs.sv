// Input buffer: a bank for each inner row of a tile, two halves.
//
// The rows of samples side by side follow one another, `slot_rows` apart, and lie in N row banks in turn.
// That distance is V times an odd number, so the same V rows of each sample lie in other banks.  The 2 * T_P inner rows
// of half the length under k = 2 are otherwise T_P whole ones: their even lines lie in the lower banks, their odd lines
// in the upper ones, so that no address waits for a comparison or a sum.

`default_nettype none

module inputs (
    input  wire                       clk,
    input  wire engine_pkg::code_t    k,
    input  wire                       one,        // words of a beat are of inner rows, not of rows
    input  wire engine_pkg::number_t  stride_x,   // words from a row to the next
    // verilator lint_off UNUSEDSIGNAL
    input  wire engine_pkg::number_t  slot_rows,
    input  wire engine_pkg::load_t    next_beat,  // the beat of the next cycle
    input  wire engine_pkg::map_t     next_map,   // which of its rows lie on the map
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
  localparam int ROW_BITS = LINE_BITS + $clog2(N);  // of a row of a half
  localparam int P_BITS = $clog2(2 * T_P + 1);
  localparam int ROW_BANK_BITS = (N > 1) ? $clog2(N) : 1;
  localparam int PLACE_BITS = (W > 1) ? $clog2(W) : 1;

  logic two;
  assign two = k == engine_pkg::K_2;

  // Halves take turns.
  function automatic logic [LINE_BITS-1:0] address_of(input logic [LINE_BITS-1:0] line, input logic whole, input logic half_);
    address_of = whole ? {line[LINE_BITS-1:1], half_} : {line[LINE_BITS-2:0], half_};
  endfunction

  // Writing, before the words come: from which of them each row bank has its word; the inner rows; two lines.
  logic [N*PLACE_BITS-1:0] word_of;
  logic [N-1:0] on_map;
  logic [P_BITS-1:0] first_p, end_p;
  logic [LINE_BITS-1:0] line, next_line;

  always_ff @(posedge clk) begin
    first_p   <= P_BITS'(next_beat.p);
    end_p     <= P_BITS'(next_beat.p + (one ? next_beat.count : 1));
    line      <= LINE_BITS'(next_beat.row / N);
    next_line <= LINE_BITS'(next_beat.row / N + 1);
  end

  for (genvar m = 0; m < N; m++) begin : gen_word_of
    engine_pkg::number_t i, word;
    assign i = (m - next_beat.row) % W;
    // i * stride_x, without a multiplier
    always_comb begin
      word = 0;
      for (int bit_ = 0; bit_ < $clog2(W); bit_++) if (stride_x[bit_]) word = word + (i << bit_);
    end
    always_ff @(posedge clk) begin
      word_of[m*PLACE_BITS+:PLACE_BITS] <= PLACE_BITS'(word % W);
      on_map[m] <= next_map[i];
    end
  end

  // Then words turn to their row banks.
  logic wrote_one;
  logic [2*T_P-1:0] mine;
  logic [N*WORD-1:0] turned;
  logic [N*LINE_BITS-1:0] write_address;
  logic [N-1:0] enable, write_odd;
  logic [WORD*W-1:0] held;
  logic [LINE_BITS-1:0] address, next_address;

  assign address      = address_of(line, !two, beat.half);
  assign next_address = address_of(next_line, !two, beat.half);

  always_ff @(posedge clk) begin
    wrote_one <= one;
    held      <= words;
  end

  for (genvar m = 0; m < N; m++) begin : gen_turn
    engine_pkg::number_t i;
    logic follows;  // its row is in the next line
    assign i = (m - beat.row) % N;
    assign follows = m < beat.row % N;
    always_ff @(posedge clk) begin
      enable[m] <= one ? i == 0 : i < beat.count;
      turned[m*WORD+:WORD] <= on_map[m] ? words[word_of[m*PLACE_BITS+:PLACE_BITS]*WORD+:WORD] : '0;
      write_odd[m] <= follows ? next_line[0] : line[0];
      write_address[m*LINE_BITS+:LINE_BITS] <= follows ? next_address : address;
    end
  end

  // Reading: places of the samples, multiples of V; addresses in the row banks; their words; V words of each sample.
  logic [S*ROW_BITS-1:0] bases, at, at_1;
  logic [S*ROW_BANK_BITS-1:0] at_2, not_at_2;  // of the lower and the upper inner rows, so that each drives half of them
  logic [S-1:0] odd_2;
  logic [N*LINE_BITS-1:0] read_address;
  logic half_1;

  for (genvar j = 0; j < S; j++) begin : gen_place
    engine_pkg::number_t place;
    logic [ROW_BANK_BITS-1:0] at_bank;
    assign place   = NUMBER'(at_1[j*ROW_BITS+:ROW_BITS]);
    assign at_bank = ROW_BANK_BITS'(place % N / V * V);
    // of a job: multiples of `slot_rows`, of numbers about half as large
    always_ff @(posedge clk) begin
      if (j < 2) bases[j*ROW_BITS+:ROW_BITS] <= (j == 0) ? '0 : slot_rows[ROW_BITS-1:0];
      else bases[j*ROW_BITS+:ROW_BITS] <= bases[j/2*ROW_BITS+:ROW_BITS] + bases[(j+1)/2*ROW_BITS+:ROW_BITS];
      at[j*ROW_BITS+:ROW_BITS] <= bases[j*ROW_BITS+:ROW_BITS] + row[ROW_BITS-1:0];
      at_2[j*ROW_BANK_BITS+:ROW_BANK_BITS] <= at_bank;
      not_at_2[j*ROW_BANK_BITS+:ROW_BANK_BITS] <= ~at_bank;
      odd_2[j] <= !two && (place / N) % 2 == 1;
    end
  end

  for (genvar m = 0; m < N; m++) begin : gen_line
    logic [LINE_BITS-1:0] from;  // of the one sample that has this row bank
    always_comb begin
      from = '0;
      for (int j = 0; j < S; j++) begin
        if (NUMBER'(at[j*ROW_BITS+:ROW_BITS]) % N / V == m / V)
          from = from | address_of(LINE_BITS'(NUMBER'(at[j*ROW_BITS+:ROW_BITS]) / N), !two, half_1);
      end
    end
    always_ff @(posedge clk) read_address[m*LINE_BITS+:LINE_BITS] <= from;
  end

  always_ff @(posedge clk) begin
    at_1   <= at;
    half_1 <= half;
  end

  logic [2*T_P*N*WORD-1:0] read;
  engine_pkg::pixels_t chosen;

  for (genvar p = 0; p < 2 * T_P; p++) begin : gen_p
    localparam bit UPPER = p >= T_P;
    logic [P_BITS-1:0] own;  // under k = 2 an inner row of its own, else the later lines of another
    assign own = two ? P_BITS'(p) : P_BITS'(p % T_P);
    always_ff @(posedge clk) mine[p] <= write && own >= first_p && own < end_p;

    for (genvar m = 0; m < N; m++) begin : gen_row
      ram #(
          .WIDTH(WORD),
          .DEPTH(2 * LINES),
          .STYLE(engine_pkg::STYLE_INPUTS),
          .ULTRA(p * N + m < engine_pkg::ULTRA_INPUTS)
      ) bank (
          .clk,
          .write        (mine[p] && enable[m] && (two || write_odd[m] == UPPER)),
          .write_address(write_address[m*LINE_BITS+:LINE_BITS]),
          .write_data   (wrote_one ? held[(two ? p % W : p % T_P % W)*WORD+:WORD] : turned[m*WORD+:WORD]),
          .read_address (read_address[m*LINE_BITS+:LINE_BITS]),
          .read_data    (read[(p*N+m)*WORD+:WORD])
      );
    end

    for (genvar j = 0; j < S; j++) begin : gen_word
      engine_pkg::number_t place;
      logic [ROW_BANK_BITS-1:0] at_bank;
      assign at_bank = UPPER ? ~not_at_2[j*ROW_BANK_BITS+:ROW_BANK_BITS] : at_2[j*ROW_BANK_BITS+:ROW_BANK_BITS];
      assign place   = NUMBER'(at_bank);
      for (genvar v = 0; v < V; v++) begin : gen_of_row
        localparam int AT = ((v * 2 * T_P + p) * S + j) * WORD;
        assign chosen[AT+:WORD] = read[(p*N+place+v)*WORD+:WORD];
        if (UPPER) begin : gen_upper
          always_ff @(posedge clk) x[AT+:WORD] <= chosen[AT+:WORD];
        end else begin : gen_lower
          always_ff @(posedge clk) x[AT+:WORD] <= odd_2[j] ? chosen[AT+T_P*S*WORD+:WORD] : chosen[AT+:WORD];
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
