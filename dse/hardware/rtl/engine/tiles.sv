// The tiles of a job in order: runs, groups, tiles of columns, blocks of rows, tiles along P.
//
// The place of a tile is stable for four cycles at least: its numbers are found in three of them, and in the last one
// they become `tile`, unless that is still to be taken.  So a tile is ready when the one before it is taken.

`default_nettype none

module tiles (
    input  wire                     clk,
    input  wire                     rst,    // what follows is not looked at, up to `start`
    input  wire                     start,  // to the first tile
    input  wire                     next,   // `tile` is taken: the next one follows in the next cycle, if it is ready
    // verilator lint_off UNUSEDSIGNAL
    input  wire  engine_pkg::job_t  job,
    // verilator lint_on UNUSEDSIGNAL
    output logic                    comes,  // `tile` is there in the next cycle
    output logic                    ready,  // so it is in this one, and the tile after it
    output       engine_pkg::tile_t tile
);

  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int S = engine_pkg::S;
  localparam int PHASE_BITS = 3;
  localparam logic [PHASE_BITS-1:0] FIRST = 4, LAST = 7;  // of a place; of a job's first one they begin at 0, for `multiples`

  // Its place: what was passed before it.
  engine_pkg::number_t run, group, q, c, column, top, offset, p;
  engine_pkg::number_t x_run, x_group, x_column, x_block, x_row, x_p, w_group, w_p, y_run, y_group, y_column, y_c, y_block;
  engine_pkg::number_t at, in_line, row_x, row_y, window_x, window_y;
  logic [PHASE_BITS-1:0] phase;
  logic at_last, valid, advance;  // at_last: phase == LAST

  assign comes   = at_last || (valid && !next);
  assign ready   = valid && at_last;
  assign advance = at_last && (!valid || next);

  // First cycle: sums, and what is left.
  engine_pkg::number_t left_p, left_rows, left_columns, left_q, left_filled, rows_left;
  engine_pkg::number_t sum_offset, sum_c, sum_at, sum_in_line, sum_row_x, sum_row_y, sum_window_x, sum_window_y;
  engine_pkg::number_t sum_x_block, sum_x_row, sum_y_block, sum_x_column, sum_y_column, sum_y_c, sum_q;
  engine_pkg::number_t x_outer, x_middle, x_inner, w_inner, y_outer, y_middle;
  logic last_group, last_run, none_filled, carry_x;
  logic [S*NUMBER-1:0] ends, multiples;  // ends of samples in columns of the tile; multiples of C

  for (genvar j = 0; j < S; j++) begin : gen_end
    if (j == 0) begin : gen_first
      always_ff @(posedge clk) multiples[0+:NUMBER] <= job.C;
    end else begin : gen_next  // of numbers about half as large
      always_ff @(posedge clk) begin
        multiples[j*NUMBER+:NUMBER] <= multiples[j/2*NUMBER+:NUMBER] + multiples[(j-1)/2*NUMBER+:NUMBER];
      end
    end
    always_ff @(posedge clk) ends[j*NUMBER+:NUMBER] <= multiples[j*NUMBER+:NUMBER] - c;
  end

  always_ff @(posedge clk) begin
    left_p       <= job.P - p;
    left_rows    <= job.down - top;
    left_columns <= job.columns - column;
    left_q       <= job.B_P - q;
    left_filled  <= job.filled - top;
    rows_left    <= job.R - offset;
    none_filled  <= job.filled <= top;
    last_group   <= group + 1 == job.groups;
    last_run     <= run + 1 == job.runs;
    sum_offset   <= offset + job.rows_remainder;
    sum_c        <= c + job.tile_remainder;
    sum_at       <= at + job.block_at;
    sum_in_line  <= in_line + job.block_in_line;
    sum_row_x    <= row_x + job.block_x;
    sum_row_y    <= row_y + job.block_y;
    sum_window_x <= window_x + job.step_x;
    sum_window_y <= window_y + job.step_y;
    carry_x      <= window_x + job.step_x >= job.kernel_x;
    sum_x_block  <= x_block + job.x_block;
    sum_x_row    <= x_row + job.x_lines;
    sum_y_block  <= y_block + job.y_block;
    sum_x_column <= x_column + job.x_tile;
    sum_y_column <= y_column + job.y_tile;
    sum_y_c      <= y_c + job.tile_words;
    sum_q        <= q + job.tile_quotient;
    x_outer      <= x_run + x_group;
    x_middle     <= x_column + x_block;
    x_inner      <= x_row + x_p;
    w_inner      <= w_group + w_p;
    y_outer      <= y_run + y_group;
    y_middle     <= y_column + y_block;
  end

  // Second cycle: what ends, and what turns.
  logic last_p, last_block, last_column, carry_row, carry_column, carry_line, carry_place, few_of_rows, few_of_left;
  engine_pkg::number_t turned_y, step_x, x_upper, x_lower, y_upper, y_lower, w;
  // verilator lint_off UNUSEDSIGNAL
  logic [S-1:0] in_whole, in_part, as_many;  // a sample ends held a whole tile, held what is left; samples left
  // verilator lint_on UNUSEDSIGNAL

  for (genvar j = 0; j < S; j++) begin : gen_within
    always_ff @(posedge clk) begin
      in_whole[j] <= ends[j*NUMBER+:NUMBER] < job.T_C;
      in_part[j]  <= ends[j*NUMBER+:NUMBER] < left_columns;
      as_many[j]  <= left_q == j + 1;
    end
  end

  always_ff @(posedge clk) begin
    last_p       <= left_p <= job.T_P;
    last_block   <= left_rows <= job.rows;
    last_column  <= left_columns <= job.T_C;
    carry_row    <= sum_offset >= job.R;
    carry_column <= sum_c >= job.C;
    carry_line   <= sum_at >= job.line;
    carry_place  <= sum_row_x >= job.span_x;
    few_of_rows  <= left_filled < job.rows;
    few_of_left  <= left_filled < left_rows;
    turned_y     <= sum_window_y + (carry_x ? job.dilation_y : 0);
    step_x       <= job.x_step + (carry_x ? job.x_window : 0);
    x_upper      <= x_outer + x_middle;
    x_lower      <= x_inner + job.x_base;
    w            <= w_inner + job.w_base;
    y_upper      <= y_outer + y_middle;
    y_lower      <= offset + job.y_base;
  end

  // Third cycle: sizes of the tile; those at an edge are smaller.
  logic carry_y, has_last, ends_block, ends_column, ends_group, ends_run;
  engine_pkg::number_t wide, depth, height, last_height, slots, before_last, x, y, next_x_row, next_row_y, far_step_x;
  // verilator lint_off UNUSEDSIGNAL
  logic [S-1:0] held;
  // verilator lint_on UNUSEDSIGNAL
  logic found_last;
  engine_pkg::number_t found_slots, found_before;
  assign held = last_column ? in_part : in_whole;

  always_comb begin  // samples end one after the other, so all before the last one that is held are, too
    found_slots  = 1;
    found_before = '0;
    found_last   = as_many[0] && (S == 1 || !held[0]);
    for (int j = 1; j < S; j++) begin
      if (held[j-1]) found_slots = NUMBER'(j + 1);
      found_before = found_before | ((held[j-1] && (j == S - 1 || !held[j])) ? ends[(j-1)*NUMBER+:NUMBER] : '0);
      if (as_many[j] && held[j-1] && (j == S - 1 || !held[j])) found_last = 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    carry_y     <= turned_y >= job.kernel_y;
    has_last    <= found_last;
    slots       <= found_slots;
    before_last <= found_before;
    wide        <= last_column ? left_columns : job.T_C;
    depth       <= last_p ? left_p : job.T_P;
    height      <= last_block ? left_rows : job.rows;
    last_height <= none_filled ? 0
        : (last_block ? few_of_left : few_of_rows) ? left_filled : last_block ? left_rows : job.rows;
    x           <= x_upper + x_lower;
    y           <= y_upper + y_lower;
    next_x_row  <= sum_x_row + (carry_line ? job.x_line : 0);
    next_row_y  <= sum_row_y + (carry_place ? job.stride_y : 0);
    far_step_x  <= step_x + job.x_channel;
    ends_block  <= last_p;
    ends_column <= last_p && last_block;
    ends_group  <= last_p && last_block && last_column;
    ends_run    <= last_p && last_block && last_column && last_group;
  end

  logic next_block, next_column, next_group, next_run, empty_last;
  assign next_block  = advance && ends_block;
  assign next_column = advance && ends_column;
  assign next_group  = advance && ends_group;
  assign next_run    = advance && ends_run;
  assign empty_last  = has_last && none_filled;

  always_ff @(posedge clk) begin
    if (!at_last) phase <= phase + 1'b1;
    at_last <= at_last || phase == LAST - 1;
    if (next) valid <= 1'b0;
    if (advance) begin
      at_last  <= 1'b0;
      phase    <= FIRST;
      valid    <= 1'b1;
      p        <= p + job.T_P;
      x_p      <= x_p + (carry_y ? far_step_x : step_x);
      w_p      <= w_p + job.w_step;
      window_x <= sum_window_x - (carry_x ? job.kernel_x : 0);
      window_y <= turned_y - (carry_y ? job.kernel_y : 0);
    end
    if (next_block) begin
      top     <= top + job.rows;
      offset  <= sum_offset - (carry_row ? job.R : 0);
      x_block <= sum_x_block + (carry_row ? job.x_sample : 0);
      x_row   <= next_x_row - (carry_row ? job.x_wrap : 0);
      at      <= sum_at - (carry_line ? job.line : 0);
      in_line <= sum_in_line - (carry_line ? job.line_words : 0);
      row_x   <= sum_row_x - (carry_place ? job.span_x : 0);
      row_y   <= next_row_y - (carry_row ? job.span_y : 0);
      y_block <= sum_y_block + (carry_row ? job.y_sample : 0);
    end
    if (next_column) begin
      column   <= column + job.T_C;
      q        <= sum_q + (carry_column ? 1 : 0);
      c        <= sum_c - (carry_column ? job.C : 0);
      x_column <= sum_x_column + (carry_column ? job.x_column : 0);
      y_column <= sum_y_column + (carry_column ? job.y_column : 0);
      y_c      <= sum_y_c - (carry_column ? job.y_group : 0);
    end
    if (next_group) begin
      group   <= group + 1;
      x_group <= x_group + job.x_group;
      w_group <= w_group + job.w_group;
      y_group <= y_group + job.y_group;
    end
    if (next_run) begin
      run   <= run + 1;
      x_run <= x_run + job.x_run;
      y_run <= y_run + job.y_run;
    end
    if (start || next_block) {p, x_p, w_p, window_x, window_y} <= '0;
    if (start || next_column) {top, offset, x_block, y_block, x_row, at, in_line, row_x, row_y} <= '0;
    if (start || next_group) {column, q, c, x_column, y_column, y_c} <= '0;
    if (start || next_run) {group, x_group, w_group, y_group} <= '0;
    if (start) {run, x_run, y_run, phase, at_last, valid} <= '0;
  end

  // Fourth cycle.
  always_ff @(posedge clk) begin
    if (advance) begin
      tile.x           <= x;
      tile.w           <= w;
      tile.y           <= y;
      tile.y_c         <= y_c;
      tile.columns     <= wide;
      tile.stored      <= empty_last ? before_last : wide;
      tile.column      <= c;
      tile.offset      <= offset;
      tile.rows_left   <= rows_left;
      tile.at          <= at;
      tile.in_line     <= in_line;
      tile.row_x       <= row_x;
      tile.row_y       <= row_y;
      tile.window_x    <= window_x;
      tile.window_y    <= window_y;
      tile.depth       <= depth;
      tile.height      <= height;
      tile.last_height <= last_height;
      tile.slots       <= slots;
      tile.loaded      <= empty_last ? slots - 1 : slots;
      tile.has_last    <= has_last;
      tile.first       <= p == 0;
      tile.last        <= ends_block;
      tile.final_      <= ends_run && last_run;
      tile.ends        <= ends;
    end
  end

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  logic over = 1'b1;  // the last tile was there
  always @(posedge clk) begin
    over <= rst || (!start && (over || (advance && ends_run && last_run)));
    if (!start && next) assert (valid) else $fatal(1, "a tile is taken before it is there");
    if (!start && advance && !over) begin
      assert (p < job.P && top < job.down && column < job.columns && group < job.groups && run < job.runs)
        else $fatal(1, "a tile beyond the last one");
      assert (c < job.C && offset < job.R && q < job.B_P) else $fatal(1, "the place of a tile in its sample");
    end
    if (!start && next) begin
      assert (tile.slots <= S && tile.loaded <= tile.slots) else $fatal(1, "more than S samples side by side");
      assert (tile.stored <= tile.columns && tile.last_height <= tile.height) else $fatal(1, "sizes of a tile");
    end
  end
`endif

endmodule

`default_nettype wire
