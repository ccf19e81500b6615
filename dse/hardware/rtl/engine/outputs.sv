// Store buffer of every V-th row, two halves: outputs come by row and leave by column, so each row is turned by one bank
// more.

`default_nettype none

module outputs #(
    parameter int ROW = 0  // it has the rows V * n + ROW
) (
    input  wire                               clk,
    input  wire  [                       1:0] k,
    input  wire                               one,    // samples of one row: words of a beat lie in a row
    input  wire                               write,  // a row, written within two cycles
    input  wire                               half,
    // verilator lint_off UNUSEDSIGNAL
    input  wire  [                      31:0] row,    // n
    input  wire  engine_pkg::store_t          beat,   // part of a column, or of a row if `one`
    // verilator lint_on UNUSEDSIGNAL
    input  wire  [engine_pkg::COLUMNS*16-1:0] outs,
    output logic [      engine_pkg::W*16-1:0] words   // of its own rows, or of columns, four cycles after the beat
);

  localparam int W = engine_pkg::W;
  localparam int GROUPS = engine_pkg::GROUPS;
  localparam int V = engine_pkg::V;
  localparam int ROWS = engine_pkg::SUM_ROWS;
  localparam int TURN_BITS = (W > 1) ? $clog2(W) : 1;
  localparam int GROUP_BITS = $clog2(GROUPS);
  localparam int BITS = $clog2(2 * ROWS);

  // Rows beyond half of the most are in the later groups, except under k = 1/2, which has columns there.
  logic two, wrote, wrote_beyond;
  logic [BITS-1:0] wrote_at;
  logic [GROUPS*W*16-1:0] turned;

  assign two = k == engine_pkg::K_HALF;

  always_ff @(posedge clk) begin
    wrote        <= write;
    wrote_beyond <= !two && row >= ROWS;
    wrote_at     <= BITS'(row - (!two && row >= ROWS ? ROWS : 0) + (half ? ROWS : 0));
  end

  for (genvar g = 0; g < GROUPS; g++) begin : gen_turn
    logic [W*16-1:0] of_group;  // turned in steps of 1, 2, 4, ... banks, which takes less than a choice among all W
    always_comb begin
      of_group = outs[(two ? g : g % (GROUPS / 2))*W*16+:W*16];
      for (int i = 0; i < TURN_BITS; i++) begin
        if (row[i]) of_group = (of_group << (16 << i)) | (of_group >> (16 * (W - (1 << i))));
      end
    end
    always_ff @(posedge clk) turned[g*W*16+:W*16] <= of_group;
  end

  // Reading: the row and the group of each bank; their words; the group's word; the word's place in the beat.
  logic [TURN_BITS-1:0] turn, turn_1, turn_2, turn_3;
  logic [GROUPS*W*16-1:0] read;
  logic [W*16-1:0] chosen;
  logic [31:0] first, first_now;  // the first of its own rows
  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::store_t now;
  // verilator lint_on UNUSEDSIGNAL

  assign first = one ? beat.row / V : (beat.row + V - 1 - ROW) / V;

  always_ff @(posedge clk) begin
    now       <= beat;
    first_now <= first;
    turn      <= TURN_BITS'((beat.column + first) % W);
    turn_1 <= turn;
    turn_2 <= turn_1;
    turn_3 <= turn_2;
  end

  for (genvar y = 0; y < W; y++) begin : gen_bank
    logic [31:0] word, at;
    logic beyond;
    logic [BITS-1:0] read_at;
    logic [GROUP_BITS-1:0] group, group_1;
    assign word   = (y - now.column - first_now) % W;
    assign at     = one ? first_now : first_now + word;
    assign beyond = !two && at >= ROWS;
    always_ff @(posedge clk) begin
      read_at <= BITS'(at - (beyond ? ROWS : 0) + (now.half ? ROWS : 0));
      group   <= GROUP_BITS'((one ? now.column + word : now.column) / W + (beyond ? GROUPS / 2 : 0));
      group_1 <= group;
      chosen[y*16+:16] <= read[(32'(group_1)*W+y)*16+:16];
    end

    for (genvar g = 0; g < GROUPS; g++) begin : gen_group
      ram #(
          .WIDTH(16),
          .DEPTH(2 * ROWS)
      ) bank (
          .clk,
          .write        (wrote && (two || wrote_beyond == (g >= GROUPS / 2))),
          .write_address(wrote_at),
          .write_data   (turned[(g*W+y)*16+:16]),
          .read_address (read_at),
          .read_data    (read[(g*W+y)*16+:16])
      );
    end
  end

  for (genvar i = 0; i < W; i++) begin : gen_word
    assign words[i*16+:16] = chosen[((i+32'(turn_3))%W)*16+:16];
  end

endmodule

`default_nettype wire
