// The beats that load a tile: its weights row by row, then its inputs.

`default_nettype none

module load_beats (
    input  wire                     clk,
    input  wire                     start,    // the first beat follows in the next cycle
    input  wire                     take,     // the port takes this beat
    // verilator lint_off UNUSEDSIGNAL
    input  wire  engine_pkg::job_t  job,
    // verilator lint_on UNUSEDSIGNAL
    input  wire  engine_pkg::tile_t tile,     // at `start`
    input  wire                     half,     // of the buffers
    output       engine_pkg::number_t address,
    output       engine_pkg::load_t beat
);

  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam engine_pkg::number_t W = NUMBER'(engine_pkg::W);
  localparam int PLACE_BITS = engine_pkg::SIZE_BITS;

  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::tile_t of;
  // verilator lint_on UNUSEDSIGNAL
  logic one, weights, piece, first;
  engine_pkg::number_t begins, wide, rest;  // pieces of weights: the first column, columns of the first, of the second
  engine_pkg::number_t base;  // address of the row of weights, or of the first line of the first slot
  engine_pkg::number_t p, column, left;  // left: columns of this piece, or rows of this slot
  engine_pkg::number_t slot, slot_base, slot_row, row_base, row, offset;
  engine_pkg::number_t line_base, at;  // address of the line, rows of it before this beat
  logic [PLACE_BITS-1:0] row_x, row_y, window_x, window_y;  // places on the map of the first row and of the window

  assign one = job.along_P[0];

  // a tile of at least all columns reads each once
  logic whole;
  engine_pkg::number_t from, columns;
  assign whole   = tile.columns >= job.C;
  assign from    = whole ? 0 : tile.column;
  assign columns = whole ? job.C : (tile.columns < tile.ends[NUMBER-1:0]) ? tile.columns : tile.ends[NUMBER-1:0];

  // this beat
  engine_pkg::number_t most, room, count, of_line;
  assign most    = (weights || one) ? W : job.of_beat;
  assign of_line = (job.line - at < left) ? job.line - at : left;
  assign room    = weights ? left : one ? of.depth - p : of_line;
  assign count   = (room < most) ? room : most;

  // the place on the map of each of its rows, and of the row after them
  logic [PLACE_BITS-1:0] from_x, from_y;
  assign from_x = window_x - job.pad_x[PLACE_BITS-1:0];
  assign from_y = window_y - job.pad_y[PLACE_BITS-1:0];
  for (genvar i = 0; i <= engine_pkg::W; i++) begin : gen_place
    logic [PLACE_BITS-1:0] x, y;
    if (i == 0) begin : gen_first
      assign x = row_x;
      assign y = row_y;
    end else begin : gen_next
      logic turns;
      assign turns = gen_place[i-1].x + job.stride_x[PLACE_BITS-1:0] == job.span_x[PLACE_BITS-1:0];
      assign x     = turns ? '0 : gen_place[i-1].x + job.stride_x[PLACE_BITS-1:0];
      assign y     = turns ? gen_place[i-1].y + job.stride_y[PLACE_BITS-1:0] : gen_place[i-1].y;
    end
    if (i < engine_pkg::W) begin : gen_on_map
      logic [PLACE_BITS-1:0] on_x, on_y;
      assign on_x           = x + from_x;
      assign on_y           = y + from_y;
      assign beat.on_map[i] = one || (on_x < job.width[PLACE_BITS-1:0] && on_y < job.height[PLACE_BITS-1:0]);
    end
  end

  // what ends with it
  logic ends_piece, ends_row, ends_line, ends_slot, ends_p, ends_weights, at_last;
  engine_pkg::number_t next_height, next_base, next_line;
  assign ends_piece   = left <= W;
  assign ends_row     = one ? p + count == of.depth : offset + count == job.R;
  assign ends_line    = at + count == job.line;
  assign ends_slot    = one ? ends_row && left == 1 : left == count;
  assign ends_weights = ends_piece && (piece || rest == 0) && p + 1 == of.depth;
  assign ends_p       = ends_slot && slot + 1 == of.loaded;
  assign at_last      = of.has_last && of.slots == ((weights || ends_p) ? 1 : slot + 2);
  assign next_height  = at_last ? of.last_height : of.height;
  assign next_line    = line_base + job.x_line + (ends_row ? job.x_sample - job.x_wrap : 0);

  // the window moves on by one inner row
  logic turns_x, turns_y;
  assign turns_x   = window_x + job.dilation_x[PLACE_BITS-1:0] == job.kernel_x[PLACE_BITS-1:0];
  assign turns_y   = turns_x && window_y + job.dilation_y[PLACE_BITS-1:0] == job.kernel_y[PLACE_BITS-1:0];
  assign next_base = weights ? of.x
      : !ends_p ? slot_base + job.x_column
      : base + job.dilation_x + (turns_x ? job.x_window : 0) + (turns_y ? job.x_channel : 0);

  assign beat.weights = weights;
  assign beat.half    = half;
  assign beat.first   = first;
  assign beat.last    = weights ? ends_weights && of.loaded == 0 : ends_p && (one || p + 1 == of.depth);
  assign beat.p       = p;
  assign beat.row     = slot_row + row;
  assign beat.column  = column;
  assign beat.count   = count;

  always_ff @(posedge clk) begin
    if (start) begin
      of       <= tile;
      weights  <= 1'b1;
      first    <= 1'b1;
      piece    <= 1'b0;
      p        <= 0;
      base     <= tile.w;
      begins   <= from;
      column   <= from;
      address  <= tile.w + from;
      left     <= columns;
      wide     <= columns;
      rest     <= whole ? 0 : tile.columns - columns;
      window_x <= tile.window_x[PLACE_BITS-1:0];
      window_y <= tile.window_y[PLACE_BITS-1:0];
    end else if (take) begin
      first <= 1'b0;
      if (weights && !ends_weights) begin
        if (!ends_piece) begin
          column  <= column + W;
          address <= address + W;
          left    <= left - W;
        end else if (!piece && rest != 0) begin
          piece   <= 1'b1;
          column  <= 0;
          address <= base;
          left    <= rest;
        end else begin
          piece   <= 1'b0;
          p       <= p + 1;
          base    <= base + job.C;
          column  <= begins;
          address <= base + job.C + begins;
          left    <= wide;
        end
      end else if (weights || ends_slot) begin  // on to the inputs of a slot
        weights   <= 1'b0;
        row       <= 0;
        left      <= next_height;
        offset    <= of.offset;
        at        <= of.at;
        row_x     <= of.row_x[PLACE_BITS-1:0];
        row_y     <= of.row_y[PLACE_BITS-1:0];
        slot_base <= next_base;
        row_base  <= next_base;
        line_base <= next_base;
        address   <= next_base + of.in_line;
        if (weights || ends_p) begin
          p        <= (weights || one) ? 0 : p + 1;
          slot     <= 0;
          slot_row <= 0;
          base     <= next_base;
          if (!weights) begin
            window_x <= turns_x ? '0 : window_x + job.dilation_x[PLACE_BITS-1:0];
            if (turns_x) window_y <= turns_y ? '0 : window_y + job.dilation_y[PLACE_BITS-1:0];
          end
        end else begin
          p        <= one ? 0 : p;
          slot     <= slot + 1;
          slot_row <= slot_row + job.slot_rows;
        end
      end else if (one) begin
        if (ends_row) begin
          p        <= 0;
          row      <= row + 1;
          left     <= left - 1;
          row_base <= row_base + job.x_sample;
          address  <= row_base + job.x_sample;
        end else begin
          p       <= p + W;
          address <= address + W;
        end
      end else begin  // the next part of a line, the next line, or the next sample
        row     <= row + count;
        left    <= left - count;
        offset  <= ends_row ? 0 : offset + count;
        at      <= ends_line ? 0 : at + count;
        address <= ends_line ? next_line : address + job.beat_words;
        if (ends_line) line_base <= next_line;
        if (ends_row) {row_x, row_y} <= '0;
        else if (ends_line) begin
          row_x <= 0;
          row_y <= row_y + job.stride_y[PLACE_BITS-1:0];
        end else begin
          row_x <= (job.stride_x == 1) ? gen_place[engine_pkg::W].x : row_x + job.beat_words[PLACE_BITS-1:0];
          row_y <= (job.stride_x == 1) ? gen_place[engine_pkg::W].y : row_y;
        end
      end
    end
  end

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  logic active;  // beats of the tile are left
  engine_pkg::number_t first_word, words_held, end_of_slot;
  assign words_held  = (job.runs - 1) * job.x_run + job.B_P * job.x_column;
  assign first_word  = one ? job.x_base : job.x_base + job.pad_y * job.width + job.pad_x;
  assign end_of_slot = (of.has_last && of.slots == slot + 1) ? of.last_height : of.height;

  always @(posedge clk) begin
    active <= start || (active && !(take && beat.last));
    if (start) begin
      assert (tile.depth != 0 && tile.columns != 0 && tile.height != 0) else $fatal(1, "a tile without sizes");
    end else if (take) begin
      assert (active) else $fatal(1, "a beat beyond the last of its tile");
      assert (count != 0 && count <= W) else $fatal(1, "words of a beat");
      assert (p < of.depth) else $fatal(1, "an inner row beyond the tile");
      if (weights) begin
        assert (column + count <= job.C) else $fatal(1, "weights beyond the columns");
        assert (address - job.w_base + count <= job.groups * job.w_group) else $fatal(1, "an address beyond the weights");
      end else begin
        assert (slot < of.loaded && row + (one ? 1 : count) <= end_of_slot) else $fatal(1, "rows beyond the tile");
        for (int i = 0; i < engine_pkg::W; i++) begin
          assert (i >= count || !beat.on_map[i]
              || address + i * (one ? 1 : job.stride_x) - first_word < words_held)
            else $fatal(1, "an address beyond the maps");
        end
      end
    end
  end
`endif

endmodule

`default_nettype wire
