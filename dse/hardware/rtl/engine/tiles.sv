// The tiles of a job in order: runs, groups, tiles of columns, blocks of rows, tiles along P.

`default_nettype none

module tiles (
    input  wire                     clk,
    input  wire                     start,  // to the first tile
    input  wire                     next,   // to the next one; `tile` follows two cycles later
    // verilator lint_off UNUSEDSIGNAL
    input  wire  engine_pkg::job_t  job,
    // verilator lint_on UNUSEDSIGNAL
    output       engine_pkg::tile_t tile
);

  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int S = engine_pkg::S;

  engine_pkg::number_t run, group, q, c, column, top, offset, p;
  engine_pkg::number_t x_run, x_group, x_column, x_block, x_row, x_p, w_group, w_p, y_run, y_group, y_column, y_c, y_block;
  engine_pkg::number_t at, in_line, row_x, row_y, window_x, window_y;
  logic carry_line, carry_place, carry_x, carry_y;
  logic last_p, last_block, last_column, last_group, last_run, carry_row, carry_column;

  assign last_p       = p + job.T_P >= job.P;
  assign last_block   = top + job.rows >= job.down;
  assign last_column  = column + job.T_C >= job.columns;
  assign last_group   = group + 1 == job.groups;
  assign last_run     = run + 1 == job.runs;
  assign carry_row    = offset + job.rows_remainder >= job.R;
  assign carry_column = c + job.tile_remainder >= job.C;

  assign carry_line = at + job.block_at >= job.line;
  assign carry_x    = window_x + job.step_x >= job.kernel_x;
  assign carry_y    = window_y + job.step_y + (carry_x ? job.dilation_y : 0) >= job.kernel_y;

  assign carry_place = row_x + job.block_x >= job.span_x;

  logic next_block, next_column, next_group, next_run;
  assign next_block  = next && last_p;
  assign next_column = next_block && last_block;
  assign next_group  = next_column && last_column;
  assign next_run    = next_group && last_group;

  always_ff @(posedge clk) begin
    if (next) begin
      p        <= p + job.T_P;
      x_p      <= x_p + job.x_step + (carry_x ? job.x_window : 0) + (carry_y ? job.x_channel : 0);
      w_p      <= w_p + job.w_step;
      window_x <= window_x + job.step_x - (carry_x ? job.kernel_x : 0);
      window_y <= window_y + job.step_y + (carry_x ? job.dilation_y : 0) - (carry_y ? job.kernel_y : 0);
    end
    if (next_block) begin
      top     <= top + job.rows;
      offset  <= offset + job.rows_remainder - (carry_row ? job.R : 0);
      x_block <= x_block + job.x_block + (carry_row ? job.x_sample : 0);
      x_row   <= x_row + job.x_lines + (carry_line ? job.x_line : 0) - (carry_row ? job.x_wrap : 0);
      at      <= at + job.block_at - (carry_line ? job.line : 0);
      in_line <= in_line + job.block_in_line - (carry_line ? job.line_words : 0);
      row_x   <= row_x + job.block_x - (carry_place ? job.span_x : 0);
      row_y   <= row_y + job.block_y + (carry_place ? job.stride_y : 0) - (carry_row ? job.span_y : 0);
      y_block <= y_block + job.y_block + (carry_row ? job.y_sample : 0);
    end
    if (next_column) begin
      column   <= column + job.T_C;
      q        <= q + job.tile_quotient + (carry_column ? 1 : 0);
      c        <= c + job.tile_remainder - (carry_column ? job.C : 0);
      x_column <= x_column + job.x_tile + (carry_column ? job.x_column : 0);
      y_column <= y_column + job.y_tile + (carry_column ? job.y_column : 0);
      y_c      <= y_c + job.tile_words - (carry_column ? job.y_group : 0);
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
    if (start) {run, x_run, y_run} <= '0;
  end

  // Sizes of the tile; those at an edge are smaller.
  engine_pkg::number_t wide, depth, height, last_height, slots, before_last;
  logic [S*NUMBER-1:0] ends;
  logic has_last, empty_last;

  for (genvar j = 0; j < S; j++) begin : gen_end
    engine_pkg::number_t columns;  // of j + 1 samples
    if (j == 0) begin : gen_first
      assign columns = job.C;
    end else begin : gen_next
      assign columns = gen_end[j-1].columns + job.C;
    end
    assign ends[j*NUMBER+:NUMBER] = columns - c;
  end

  always_comb begin
    wide        = last_column ? job.columns - column : job.T_C;
    depth       = last_p ? job.P - p : job.T_P;
    height      = last_block ? job.down - top : job.rows;
    last_height = (job.filled <= top) ? 0 : (job.filled - top < height) ? job.filled - top : height;
    slots       = 1;
    before_last = 0;
    for (int j = 0; j < S - 1; j++) begin
      if (ends[j*NUMBER+:NUMBER] < wide) begin
        slots = slots + 1;
        before_last = ends[j*NUMBER+:NUMBER];
      end
    end
    has_last   = q + slots == job.B_P;
    empty_last = has_last && last_height == 0;
  end

  always_ff @(posedge clk) begin
    tile.x           <= job.x_base + x_run + x_group + x_column + x_block + x_row + x_p;
    tile.w           <= job.w_base + w_group + w_p;
    tile.y           <= job.y_base + y_run + y_group + y_column + y_block + offset;
    tile.y_c         <= y_c;
    tile.columns     <= wide;
    tile.stored      <= empty_last ? before_last : wide;
    tile.column      <= c;
    tile.offset      <= offset;
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
    tile.last        <= last_p;
    tile.final_      <= last_p && last_block && last_column && last_group && last_run;
    tile.ends        <= ends;
  end

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  logic recent;
  always @(posedge clk) begin
    recent <= start || next;
    if (next) begin
      assert (!recent) else $fatal(1, "a tile is taken before it is there");
      assert (p < job.P && top < job.down && column < job.columns && group < job.groups && run < job.runs)
        else $fatal(1, "a tile beyond the last one");
      assert (c < job.C && offset < job.R && q < job.B_P) else $fatal(1, "the place of a tile in its sample");
      assert (tile.slots <= S && tile.loaded <= tile.slots) else $fatal(1, "more than S samples side by side");
      assert (tile.stored <= tile.columns && tile.last_height <= tile.height) else $fatal(1, "sizes of a tile");
    end
  end
`endif

endmodule

`default_nettype wire
