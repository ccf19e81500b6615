// The beats that store the outputs of a pass: column by column; row by row if a sample has one row.  And the beats that
// read what is added to them, which lie elsewhere in the same order.

`default_nettype none

module store_beats (
    input  wire                      clk,
    input  wire                      start,    // the first beat follows in the next cycle
    input  wire                      take,     // the port takes this beat
    // verilator lint_off UNUSEDSIGNAL
    input  wire  engine_pkg::job_t   job,
    input  wire  engine_pkg::tile_t  tile,     // at `start`
    // verilator lint_on UNUSEDSIGNAL
    input  wire  engine_pkg::number_t distance,  // from the address of an output
    input  wire                      half,     // of the buffer
    output       engine_pkg::number_t address,
    output       engine_pkg::store_t beat,
    output logic                     last
);

  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int SIZE = engine_pkg::SIZE_BITS;
  localparam int SLOTS = $clog2(engine_pkg::S + 2);  // bits of a count of samples side by side
  localparam logic [SIZE-1:0] W = SIZE'(engine_pkg::W);

  typedef logic [SIZE-1:0] size_t;
  typedef logic [SLOTS-1:0] slots_t;

  // Of a job: rows of a sample, as far as a block may have them.
  size_t unit;
  logic one, unit_ends, columns_end, one_column;  // ..._end: it is a beat at most
  engine_pkg::number_t beyond_sample;  // words from the end of a sample's column to the next sample
  always_ff @(posedge clk) begin
    one           <= job.R == 1;
    unit          <= (job.R >> SIZE != 0) ? '1 : job.R[SIZE-1:0];
    unit_ends     <= job.R <= NUMBER'(W);
    columns_end   <= job.C <= NUMBER'(W);
    one_column    <= job.C == 1;
    beyond_sample <= job.y_sample - job.R;
  end

  // Of a tile, at `start`: columns of the first sample; rows of its block in the first sample down the rows, and after it.
  size_t start_width, start_rows, start_last, start_after, start_last_after;
  logic start_at_last;
  // ..._ends: that is a beat at most; ..._whole: no rows are after it; start_one_...: it is the only one
  logic start_width_ends, start_ends, start_last_ends, start_whole, start_last_whole;
  logic start_one_column, start_one_row, start_one_last;
  assign start_width   = (tile.stored < tile.ends[NUMBER-1:0]) ? tile.stored[SIZE-1:0] : tile.ends[SIZE-1:0];
  assign start_rows    = start_whole ? tile.height[SIZE-1:0] : tile.rows_left[SIZE-1:0];
  assign start_last    = start_last_whole ? tile.last_height[SIZE-1:0] : tile.rows_left[SIZE-1:0];
  assign start_after   = start_whole ? '0 : tile.height[SIZE-1:0] - tile.rows_left[SIZE-1:0];
  assign start_last_after = start_last_whole ? '0 : tile.last_height[SIZE-1:0] - tile.rows_left[SIZE-1:0];
  assign start_at_last = tile.has_last && tile.slots == 1;
  assign start_width_ends = tile.stored <= NUMBER'(W) || tile.ends[NUMBER-1:0] <= NUMBER'(W);
  assign start_ends       = tile.height <= NUMBER'(W) || tile.rows_left <= NUMBER'(W);
  assign start_last_ends  = tile.last_height <= NUMBER'(W) || tile.rows_left <= NUMBER'(W);
  assign start_whole      = tile.height <= tile.rows_left;
  assign start_last_whole = tile.last_height <= tile.rows_left;
  assign start_one_column = tile.stored == 1 || tile.ends[NUMBER-1:0] == 1;
  assign start_one_row    = tile.height == 1;
  assign start_one_last   = tile.last_height == 1;

  logic has_last;
  size_t height, last_height, full_rows, full_after, last_rows, last_after;
  logic one_row, one_last, full_ends, full_whole, last_ends, last_whole;
  engine_pkg::number_t first_step;  // from the first address of a column to that of the next sample down the rows

  // Where it is: a piece is of one sample, in a column; of one row if a sample has one.
  logic first_piece;
  slots_t slots_left;
  size_t lines_left;  // of this sample column: columns, or rows if a sample has one
  size_t width, beyond;  // columns of this sample column, of those after it
  size_t slot_column, slot_rows, slot_after;  // its first column; the first piece of each column, and rows after it
  size_t column, row, piece, after;
  engine_pkg::number_t slot_base, line_base, piece_base;

  // This beat, and what ends with it; the first four are made with the beat.
  logic ends_piece, no_after, last_line, no_beyond;  // piece <= W; after == 0; lines_left == 1; beyond == 0
  logic width_ends, slot_ends, slot_whole;  // width <= W; slot_rows <= W; slot_after == 0
  logic ends_line, ends_slot;
  size_t count;
  assign count     = ends_piece ? piece : W;
  assign ends_line = ends_piece && no_after;
  assign ends_slot = ends_line && last_line;
  assign last      = ends_slot && no_beyond;

  // What follows.
  logic fits, next_fits, next_last;
  size_t next_width;
  engine_pkg::number_t next_base, next_line, next_piece;
  assign fits       = after <= unit;
  assign next_fits  = NUMBER'(beyond) <= job.C;
  assign next_width = next_fits ? beyond : job.C[SIZE-1:0];
  assign next_last  = has_last && slots_left == 2;
  assign next_base  = slot_base + job.y_column;
  assign next_line  = line_base + (one ? job.y_sample : job.y_channel);
  assign next_piece = piece_base + (first_piece ? first_step : job.y_sample);

  assign beat.half   = half;
  assign beat.column = NUMBER'(column);
  assign beat.row    = NUMBER'(row);
  assign beat.count  = NUMBER'(count);

  always_ff @(posedge clk) begin
    if (start) begin
      has_last    <= tile.has_last;
      height      <= tile.height[SIZE-1:0];
      last_height <= tile.last_height[SIZE-1:0];
      full_rows   <= start_rows;
      full_after  <= start_after;
      last_rows   <= start_last;
      last_after  <= start_last_after;
      one_row     <= start_one_row;
      one_last    <= start_one_last;
      full_ends   <= start_ends;
      full_whole  <= start_whole;
      last_ends   <= start_last_ends;
      last_whole  <= start_last_whole;
      first_step  <= beyond_sample + tile.rows_left;
      first_piece <= 1'b1;
      slots_left  <= tile.slots[SLOTS-1:0];
      width       <= start_width;
      width_ends  <= start_width_ends;
      beyond      <= tile.stored[SIZE-1:0] - start_width;
      no_beyond   <= tile.stored <= tile.ends[NUMBER-1:0];
      slot_column <= '0;
      slot_rows   <= start_at_last ? start_last : start_rows;
      slot_ends   <= start_at_last ? start_last_ends : start_ends;
      slot_after  <= start_at_last ? start_last_after : start_after;
      slot_whole  <= start_at_last ? start_last_whole : start_whole;
      lines_left  <= !one ? start_width : start_at_last ? tile.last_height[SIZE-1:0] : tile.height[SIZE-1:0];
      last_line   <= !one ? start_one_column : start_at_last ? start_one_last : start_one_row;
      piece       <= one ? start_width : start_at_last ? start_last : start_rows;
      ends_piece  <= one ? start_width_ends : start_at_last ? start_last_ends : start_ends;
      after       <= one ? '0 : start_at_last ? start_last_after : start_after;
      no_after    <= one || (start_at_last ? start_last_whole : start_whole);
      column      <= '0;
      row         <= '0;
      slot_base   <= tile.y + distance;
      line_base   <= tile.y + tile.y_c + distance;
      piece_base  <= tile.y + tile.y_c + distance;
      address     <= tile.y + tile.y_c + distance;
    end else if (take) begin
      if (ends_slot) begin
        first_piece <= 1'b1;
        slots_left  <= slots_left - 1'b1;
        width       <= next_width;
        width_ends  <= next_fits ? beyond <= W : columns_end;
        beyond      <= next_fits ? '0 : beyond - job.C[SIZE-1:0];
        no_beyond   <= next_fits;
        slot_column <= slot_column + width;
        slot_rows   <= next_last ? last_rows : full_rows;
        slot_ends   <= next_last ? last_ends : full_ends;
        slot_after  <= next_last ? last_after : full_after;
        slot_whole  <= next_last ? last_whole : full_whole;
        lines_left  <= !one ? next_width : next_last ? last_height : height;
        last_line   <= one ? (next_last ? one_last : one_row) : next_fits ? beyond == 1 : one_column;
        piece       <= one ? next_width : next_last ? last_rows : full_rows;
        ends_piece  <= !one ? (next_last ? last_ends : full_ends) : next_fits ? beyond <= W : columns_end;
        after       <= one ? '0 : next_last ? last_after : full_after;
        no_after    <= one || (next_last ? last_whole : full_whole);
        column      <= slot_column + width;
        row         <= '0;
        slot_base   <= next_base;
        line_base   <= next_base;
        piece_base  <= next_base;
        address     <= next_base;
      end else if (ends_line) begin  // the next row if a sample has one, else the next column
        first_piece <= 1'b1;
        lines_left  <= lines_left - 1'b1;
        last_line   <= lines_left == 2;
        piece       <= one ? width : slot_rows;
        ends_piece  <= one ? width_ends : slot_ends;
        after       <= one ? '0 : slot_after;
        no_after    <= one || slot_whole;
        column      <= one ? slot_column : column + 1'b1;
        row         <= one ? row + 1'b1 : '0;
        line_base   <= next_line;
        piece_base  <= next_line;
        address     <= next_line;
      end else if (ends_piece) begin  // the next sample down the rows
        first_piece <= 1'b0;
        piece       <= fits ? after : unit;
        ends_piece  <= fits ? after <= W : unit_ends;
        after       <= fits ? '0 : after - unit;
        no_after    <= fits;
        row         <= row + piece;
        piece_base  <= next_piece;
        address     <= next_piece;
      end else begin
        piece      <= piece - W;
        ends_piece <= {1'b0, piece} <= {W, 1'b0};
        address    <= address + NUMBER'(W);
        if (one) column <= column + W;
        else row <= row + W;
      end
    end
  end

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  logic active;  // beats of the pass are left
  size_t rows_here, columns_here, stored;
  assign rows_here    = (has_last && slots_left == 1) ? last_height : height;
  assign columns_here = column + (one ? count : SIZE'(1));
  always @(posedge clk) begin
    if (start) stored <= tile.stored[SIZE-1:0];
    active <= start ? tile.stored != 0 : active && !(take && last);
    if (!start && take) begin
      assert (active) else $fatal(1, "a beat beyond the last of its pass");
      assert (count != 0 && count <= W) else $fatal(1, "words of a beat");
      assert (columns_here <= stored) else $fatal(1, "columns beyond the tile");
      assert (row + (one ? SIZE'(1) : count) <= rows_here) else $fatal(1, "rows beyond the tile");
      assert (address - distance - job.y_base + NUMBER'(count) <= (job.runs - 1) * job.y_run + job.B_P * job.y_column) else $fatal(1, "an address beyond the outputs");
    end
  end
`endif

endmodule

`default_nettype wire
