// Store buffer of every V-th row, two halves: outputs come by row and leave by column, so each row is turned by one bank
// more.

`default_nettype none

module outputs #(
    parameter int ROW = 0  // it has the rows V * n + ROW
) (
    input  wire                       clk,
    input  wire engine_pkg::code_t    k,
    input  wire                       one,    // samples of one row: words of a beat lie in a row
    input  wire                       write,  // a row, written within two cycles
    input  wire                       half,
    // verilator lint_off UNUSEDSIGNAL
    input  wire engine_pkg::number_t  row,    // n
    input  wire engine_pkg::store_t   beat,   // part of a column, or of a row if `one`
    // verilator lint_on UNUSEDSIGNAL
    input  wire engine_pkg::outputs_t outs,
    output      engine_pkg::beat_t    words   // of its own rows, or of columns, a cycle before they leave
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int W = engine_pkg::W;
  localparam int GROUPS = engine_pkg::GROUPS;
  localparam int COLUMNS = engine_pkg::COLUMNS;
  localparam int V = engine_pkg::V;
  localparam int ROWS = engine_pkg::SUM_ROWS;
  localparam int TURN_BITS = (W > 1) ? $clog2(W) : 1;
  localparam int GROUP_BITS = $clog2(GROUPS);
  localparam int BITS = $clog2(2 * ROWS);
  localparam int COLUMN_BITS = $clog2(COLUMNS);

  // Rows beyond half of the most are in the later groups, except under k = 1/2, which has columns there.
  logic two, wrote, wrote_beyond;
  logic [BITS-1:0] wrote_at;
  logic [GROUPS*W*WORD-1:0] turned;

  assign two = k == engine_pkg::K_HALF;

  always_ff @(posedge clk) begin
    wrote        <= write;
    wrote_beyond <= !two && row >= ROWS;
    wrote_at     <= BITS'(row - (!two && row >= ROWS ? ROWS : 0) + (half ? ROWS : 0));
  end

  for (genvar g = 0; g < GROUPS; g++) begin : gen_turn
    logic [W*WORD-1:0] of_group;  // turned in steps of 1, 2, 4, ... banks, which takes less than a choice among all W
    always_comb begin
      of_group = outs[(two ? g : g % (GROUPS / 2))*W*WORD+:W*WORD];
      for (int i = 0; i < TURN_BITS; i++) begin
        if (row[i]) of_group = (of_group << (WORD << i)) | (of_group >> (WORD * (W - (1 << i))));
      end
    end
    always_ff @(posedge clk) turned[g*W*WORD+:W*WORD] <= of_group;
  end

  // Reading: the place of the beat; the row and the group of each bank; their words; the group's word.  The word's place
  // in the beat is found after that.
  logic [TURN_BITS-1:0] turn, turn_1, turn_2, turn_3;
  logic [GROUPS*W*WORD-1:0] read;
  logic [W*WORD-1:0] chosen;
  engine_pkg::number_t first;  // the first of its own rows
  logic [BITS-1:0] base, base_beyond, left;  // where it is, in the later groups, too; rows up to these
  logic is_beyond;
  logic [COLUMN_BITS-1:0] column;

  assign first = one ? beat.row / V : (beat.row + V - 1 - ROW) / V;

  always_ff @(posedge clk) begin
    base        <= BITS'(first + (beat.half ? ROWS : 0));
    base_beyond <= BITS'(first - (beat.half ? 0 : ROWS));
    left        <= BITS'(ROWS - first);
    is_beyond   <= first >= ROWS;
    column      <= COLUMN_BITS'(beat.column);
    turn        <= TURN_BITS'((beat.column + first) % W);
    turn_1 <= turn;
    turn_2 <= turn_1;
    turn_3 <= turn_2;
  end

  for (genvar y = 0; y < W; y++) begin : gen_bank
    engine_pkg::number_t word;
    logic beyond;
    logic [BITS-1:0] read_at;
    logic [GROUP_BITS-1:0] group, group_1;
    assign word   = (y - NUMBER'(turn)) % W;
    assign beyond = !two && (is_beyond || (!one && word >= NUMBER'(left)));
    always_ff @(posedge clk) begin
      read_at <= (beyond ? base_beyond : base) + (one ? '0 : BITS'(word));
      group   <= GROUP_BITS'((NUMBER'(column) + (one ? word : 0)) / W + (beyond ? GROUPS / 2 : 0));
      group_1 <= group;
      chosen[y*WORD+:WORD] <= read[(NUMBER'(group_1)*W+y)*WORD+:WORD];
    end

    for (genvar g = 0; g < GROUPS; g++) begin : gen_group
      ram #(
          .WIDTH(WORD),
          .DEPTH(2 * ROWS),
          .STYLE(engine_pkg::STYLE_STORES),
          .ULTRA((ROW * W + y) * GROUPS + g < engine_pkg::ULTRA_STORES)
      ) bank (
          .clk,
          .write        (wrote && (two || wrote_beyond == (g >= GROUPS / 2))),
          .write_address(wrote_at),
          .write_data   (turned[(g*W+y)*WORD+:WORD]),
          .read_address (read_at),
          .read_data    (read[(g*W+y)*WORD+:WORD])
      );
    end
  end

  always_comb begin
    words = chosen;
    for (int i = 0; i < TURN_BITS; i++) if (turn_3[i]) words = (words >> (WORD << i)) | (words << (WORD * (W - (1 << i))));
  end

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  localparam int STAGES = 10;  // with two of `bounds`, and four of `residual` between them
  initial assert (engine_pkg::WRITE_DELAY == STAGES) else $fatal(1, "words follow a beat after as many stages");
  always @(posedge clk) begin
    if (write) assert (row < (two ? ROWS : 2 * ROWS)) else $fatal(1, "a row beyond the store buffer");
  end
`endif

endmodule

`default_nettype wire
