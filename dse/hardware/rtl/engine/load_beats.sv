// The beats that load a tile: its weights row by row, then its inputs.

`default_nettype none

module load_beats (
    input  wire                     clk,
    input  wire                     begins,   // a job: what is the same for all its tiles is made in the next W + 1 cycles
    output logic                    made,     // it is, or will be when the first inputs load
    input  wire                     start,    // the first beat follows in the next cycle
    input  wire                     take,     // the port takes this beat
    // verilator lint_off UNUSEDSIGNAL
    input  wire  engine_pkg::job_t  job,
    // verilator lint_on UNUSEDSIGNAL
    input  wire  engine_pkg::tile_t tile,     // at `start`
    input  wire                     half,     // of the buffers
    output       engine_pkg::number_t address,
    output       engine_pkg::load_t beat,
    output       engine_pkg::map_t  on_map    // which rows of the beat of the cycle before lie on the map
);

  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int SIZE = engine_pkg::SIZE_BITS;
  localparam int SLOTS = $clog2(engine_pkg::S + 2);  // bits of a count of samples side by side
  localparam int WORDS = engine_pkg::W;
  localparam logic [SIZE-1:0] W = SIZE'(WORDS);
  localparam int LINE_BITS = $clog2(WORDS + 2);  // lines of the map that a beat may touch
  localparam int MADE_BITS = $clog2(WORDS + 2);

  typedef logic [SIZE-1:0] size_t;
  typedef logic [SLOTS-1:0] slots_t;
  typedef logic [LINE_BITS-1:0] lines_t;

  // Of a job: the place of row i of a beat on the map, from the place of its first row, in words and lines; what is left
  // behind it in its line; the same for the first row of the next beat.  They come in at the end and move on.
  logic [(WORDS+1)*SIZE-1:0] place, room;
  logic [(WORDS+1)*LINE_BITS-1:0] line;
  logic [MADE_BITS-1:0] making;  // cycles until they are there
  size_t next_place, on_place, on_room;
  lines_t next_lines, on_lines;
  logic turns_line, by_one;  // by_one: an input for each row, so that the rows of a beat may be of several lines

  assign turns_line = next_place + job.stride_x[SIZE-1:0] == job.span_x[SIZE-1:0];
  assign made       = making <= MADE_BITS'(2);

  always_ff @(posedge clk) begin
    if (begins) begin
      making     <= MADE_BITS'(WORDS + 1);
      next_place <= '0;
      next_lines <= '0;
    end else if (making != 0) begin
      making     <= making - 1'b1;
      place      <= {next_place, place[(WORDS+1)*SIZE-1:SIZE]};
      room       <= {job.span_x[SIZE-1:0] - next_place, room[(WORDS+1)*SIZE-1:SIZE]};
      line       <= {next_lines, line[(WORDS+1)*LINE_BITS-1:LINE_BITS]};
      next_place <= turns_line ? '0 : next_place + job.stride_x[SIZE-1:0];
      next_lines <= next_lines + LINE_BITS'(turns_line);
    end
    by_one   <= job.stride_x == 1;
    on_place <= by_one ? place[WORDS*SIZE+:SIZE] : job.beat_words[SIZE-1:0];
    on_room  <= room[WORDS*SIZE+:SIZE];
    on_lines <= by_one ? line[WORDS*LINE_BITS+:LINE_BITS] : '0;
  end

  // Of a job, too: steps of addresses, from an inner row and from a line to the next, and in a line.
  engine_pkg::number_t inner_step, inner_turn_x, inner_turn_y, line_step, line_turn, sample_turn, along;
  size_t unit;  // rows of a line, as far as a block may have them, or one by one
  size_t of_beat;  // rows of a beat of inputs, or inner rows
  engine_pkg::number_t line_rest;  // rows of a sample beyond a line
  logic one;
  assign one = job.along_P[0];
  // ... and of the window: where its last column or row is, and the one before it; whether the first is the last
  size_t last_x, last_y, last_x_but_one, last_y_but_one;
  logic one_x, one_y;

  always_ff @(posedge clk) begin
    inner_step   <= job.dilation_x;
    inner_turn_x <= job.dilation_x + job.x_window;
    inner_turn_y <= inner_turn_x + job.x_channel;
    sample_turn  <= job.x_sample - job.x_wrap;
    line_step    <= job.x_line;
    line_turn    <= line_step + sample_turn;
    along        <= one ? NUMBER'(WORDS) : job.beat_words;
    last_x         <= job.kernel_x[SIZE-1:0] - job.dilation_x[SIZE-1:0];
    last_y         <= job.kernel_y[SIZE-1:0] - job.dilation_y[SIZE-1:0];
    last_x_but_one <= last_x - job.dilation_x[SIZE-1:0];
    last_y_but_one <= last_y - job.dilation_y[SIZE-1:0];
    one_x          <= last_x == 0;
    one_y          <= last_y == 0;
    of_beat      <= one ? W : job.of_beat[SIZE-1:0];
    unit         <= (job.line >> SIZE != 0) ? '1 : job.line[SIZE-1:0];
    line_rest    <= job.R - job.line;
  end

  // Of a tile.
  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::tile_t of;
  // verilator lint_on UNUSEDSIGNAL
  engine_pkg::number_t x_first, first_step, first_turn;  // of the first row; from its line to the next
  engine_pkg::number_t column_step;  // from the end of a row of weights to the first column of the next
  size_t from, wide, rest;  // pieces of weights: the first column, columns of the first, of the second
  size_t first_rows, first_after, last_rows, last_after;  // the first piece of a slot, rows after it; of the last sample
  engine_pkg::number_t first_rest;  // rows of a sample beyond the first line
  logic all_columns, no_rest, no_inputs;

  // At `start`; a tile of at least all columns reads each once.
  size_t start_from, start_wide, start_rest, start_depth, start_height, start_last;
  engine_pkg::number_t start_line;
  assign all_columns = tile.columns >= job.C;
  assign start_from  = all_columns ? '0 : tile.column[SIZE-1:0];
  assign start_wide  = all_columns ? job.C[SIZE-1:0]
      : (tile.columns < tile.ends[NUMBER-1:0]) ? tile.columns[SIZE-1:0] : tile.ends[SIZE-1:0];
  assign start_rest  = (all_columns || tile.columns < tile.ends[NUMBER-1:0]) ? '0 : tile.columns[SIZE-1:0] - tile.ends[SIZE-1:0];
  assign start_line  = job.line - tile.at;
  assign start_depth = tile.depth[SIZE-1:0];
  // the rows that the first line has of those of a slot
  assign start_height = (tile.height <= start_line) ? tile.height[SIZE-1:0] : start_line[SIZE-1:0];
  assign start_last   = (tile.last_height <= start_line) ? tile.last_height[SIZE-1:0] : start_line[SIZE-1:0];

  // Where it is: a piece is of one row of weights, or of one line of inputs.
  logic weights, second, first, last_p, last_slot, first_line, ends_sample;
  engine_pkg::number_t base, slot_base, line_base;  // of the row of weights or the inner row, of the slot, of the line
  size_t p, depth_left, column, row, slot_row;
  size_t most, piece, after;  // words or rows of a beat, of this piece, rows after this piece
  engine_pkg::number_t sample_left;  // rows of the sample after this line
  slots_t slots_left, loads_left;
  size_t row_x, row_y, window_x, window_y;  // places of the first row, and of the inner row in the window
  size_t from_x, from_y, first_x, first_y, at_x, at_y;  // on the map: of the window; of a slot's first row; of this one
  size_t edge_x, edge_y;  // of a slot's first row, in the window's first column or row
  logic turns_x, last_line;  // the inner row is the last one of a line of the window; that line is the last one

  // This beat, and what ends with it; the first two are made with the beat.
  logic ends_piece, no_after;  // piece <= most; after == 0
  logic ends_slot, ends_p, ends_weights;
  size_t count;
  assign count        = ends_piece ? piece : most;
  assign ends_slot    = ends_piece && no_after;
  assign ends_weights = ends_piece && (second || no_rest) && last_p;
  assign ends_p       = ends_slot && last_slot;

  // What follows: the next line, the next slot, the next inner row.
  logic fits, at_last, turns_row;
  size_t next_first_x, next_first_y;
  engine_pkg::number_t next_line, next_base;
  assign fits          = after <= unit;
  assign next_line     = line_base + (first_line ? (ends_sample ? first_turn : first_step) : (ends_sample ? line_turn : line_step));
  assign at_last       = of.has_last && ((weights || last_slot) ? of.slots == 1 : slots_left == 2);
  assign next_base     = weights ? x_first
      : !last_slot ? slot_base + job.x_column
      : base + (!turns_x ? inner_step : last_line ? inner_turn_y : inner_turn_x);
  assign next_first_x  = turns_x ? edge_x : first_x + job.dilation_x[SIZE-1:0];
  assign next_first_y  = !turns_x ? first_y : last_line ? edge_y : first_y + job.dilation_y[SIZE-1:0];
  assign turns_row     = by_one && row_x >= on_room;

  always_ff @(posedge clk) begin
    if (start) begin
      of          <= tile;
      weights     <= 1'b1;
      first       <= 1'b1;
      second      <= 1'b0;
      p           <= '0;
      depth_left  <= start_depth;
      last_p      <= start_depth == 1;
      base        <= tile.w;
      address     <= tile.w + NUMBER'(start_from);
      from        <= start_from;
      column      <= start_from;
      column_step <= job.C + NUMBER'(start_from);
      wide        <= start_wide;
      rest        <= start_rest;
      no_rest     <= start_rest == 0;
      most        <= W;
      piece       <= start_wide;
      ends_piece  <= all_columns ? job.C <= NUMBER'(WORDS)
          : tile.columns <= NUMBER'(WORDS) || tile.ends[NUMBER-1:0] <= NUMBER'(WORDS);
      x_first     <= tile.x + tile.in_line;
      first_step  <= line_step - tile.in_line;
      first_turn  <= line_turn - tile.in_line;
      no_inputs   <= tile.loaded == 0;
      first_rows  <= one ? start_depth : start_height;
      first_after <= (tile.height <= start_line) ? '0 : tile.height[SIZE-1:0] - start_line[SIZE-1:0];
      last_rows   <= one ? start_depth : start_last;
      last_after  <= (tile.last_height <= start_line) ? '0 : tile.last_height[SIZE-1:0] - start_line[SIZE-1:0];
      first_rest  <= line_rest - (tile.offset - tile.at);
      window_x    <= tile.window_x[SIZE-1:0];
      window_y    <= tile.window_y[SIZE-1:0];
      from_x      <= tile.window_x[SIZE-1:0] - job.pad_x[SIZE-1:0];
      from_y      <= tile.window_y[SIZE-1:0] - job.pad_y[SIZE-1:0];
      edge_x      <= tile.row_x[SIZE-1:0] - job.pad_x[SIZE-1:0];
      edge_y      <= tile.row_y[SIZE-1:0] - job.pad_y[SIZE-1:0];
      first_x     <= tile.row_x[SIZE-1:0] - job.pad_x[SIZE-1:0] + tile.window_x[SIZE-1:0];
      first_y     <= tile.row_y[SIZE-1:0] - job.pad_y[SIZE-1:0] + tile.window_y[SIZE-1:0];
      turns_x     <= tile.window_x[SIZE-1:0] == last_x;
      last_line   <= tile.window_y[SIZE-1:0] == last_y;
    end else if (take) begin
      first <= 1'b0;
      if (weights && !ends_weights) begin
        if (!ends_piece) begin
          column     <= column + W;
          address    <= address + NUMBER'(WORDS);
          piece      <= piece - W;
          ends_piece <= piece <= SIZE'(2 * WORDS);
        end else if (!second && !no_rest) begin
          second     <= 1'b1;
          column     <= '0;
          address    <= base;
          piece      <= rest;
          ends_piece <= rest <= W;
        end else begin
          second     <= 1'b0;
          p          <= p + 1'b1;
          depth_left <= depth_left - 1'b1;
          last_p     <= depth_left == 2;
          base       <= base + job.C;
          column     <= from;
          address    <= base + column_step;
          piece      <= wide;
          ends_piece <= wide <= W;
        end
      end else if (weights || ends_slot) begin  // on to the inputs of a slot
        weights     <= 1'b0;
        most        <= of_beat;
        row         <= (weights || last_slot) ? '0 : slot_row + job.slot_rows[SIZE-1:0];
        slot_row    <= (weights || last_slot) ? '0 : slot_row + job.slot_rows[SIZE-1:0];
        piece       <= at_last ? last_rows : first_rows;
        ends_piece  <= at_last ? last_rows <= of_beat : first_rows <= of_beat;
        after       <= at_last ? last_after : first_after;
        no_after    <= at_last ? last_after == 0 : first_after == 0;
        sample_left <= first_rest;
        ends_sample <= first_rest == 0;
        first_line  <= 1'b1;
        slot_base   <= next_base;
        line_base   <= next_base;
        address     <= next_base;
        row_x       <= of.row_x[SIZE-1:0];
        row_y       <= of.row_y[SIZE-1:0];
        at_x        <= (weights || !last_slot) ? first_x : next_first_x;
        at_y        <= (weights || !last_slot) ? first_y : next_first_y;
        if (weights || last_slot) begin
          p          <= (weights || one) ? '0 : p + 1'b1;
          depth_left <= weights ? of.depth[SIZE-1:0] : depth_left - 1'b1;
          last_p     <= weights ? of.depth == 1 : depth_left == 2;
          slots_left <= of.slots[SLOTS-1:0];
          loads_left <= of.loaded[SLOTS-1:0];
          last_slot  <= of.loaded == 1;
          base       <= next_base;
          if (!weights) begin
            turns_x  <= turns_x ? one_x : window_x == last_x_but_one;
            window_x <= turns_x ? '0 : window_x + job.dilation_x[SIZE-1:0];
            from_x   <= turns_x ? -job.pad_x[SIZE-1:0] : from_x + job.dilation_x[SIZE-1:0];
            first_x  <= next_first_x;
            first_y  <= next_first_y;
            if (turns_x) begin
              last_line <= last_line ? one_y : window_y == last_y_but_one;
              window_y  <= last_line ? '0 : window_y + job.dilation_y[SIZE-1:0];
              from_y    <= last_line ? -job.pad_y[SIZE-1:0] : from_y + job.dilation_y[SIZE-1:0];
            end
          end
        end else begin
          p          <= one ? '0 : p;
          slots_left <= slots_left - 1'b1;
          loads_left <= loads_left - 1'b1;
          last_slot  <= loads_left == 2;
        end
      end else if (!ends_piece) begin
        address    <= address + along;
        piece      <= piece - most;
        ends_piece <= {1'b0, piece} <= {most, 1'b0};
        if (one) p <= p + W;
        else row <= row + most;
        row_x <= turns_row ? row_x - on_room : row_x + on_place;
        row_y <= row_y + SIZE'(on_lines) + SIZE'(turns_row);
        at_x  <= turns_row ? at_x - on_room : at_x + on_place;
        at_y  <= at_y + SIZE'(on_lines) + SIZE'(turns_row);
      end else begin  // the next line, of this sample or of the next one
        address     <= next_line;
        line_base   <= next_line;
        first_line  <= 1'b0;
        piece       <= one ? of.depth[SIZE-1:0] : fits ? after : unit;
        ends_piece  <= one ? of.depth[SIZE-1:0] <= of_beat : fits ? after <= of_beat : unit <= of_beat;
        after       <= fits ? '0 : after - unit;
        no_after    <= fits;
        sample_left <= ends_sample ? line_rest : sample_left - NUMBER'(unit);
        ends_sample <= ends_sample ? line_rest == 0 : sample_left == NUMBER'(unit);
        row         <= row + (one ? SIZE'(1) : piece);
        if (one) p <= '0;
        row_x <= '0;
        row_y <= ends_sample ? '0 : row_y + job.stride_y[SIZE-1:0];
        at_x  <= from_x;
        at_y  <= from_y + (ends_sample ? '0 : row_y + job.stride_y[SIZE-1:0]);
      end
    end
  end

  // Which of the beat's rows lie on the map, in two cycles.  Lines that do: from `low` on, up to `high`.
  lines_t low, high;
  size_t to_first, to_end;  // lines from the beat's first to the map's first, to beyond its last
  assign to_first = -at_y;
  assign to_end   = job.height[SIZE-1:0] - at_y;

  always_ff @(posedge clk) begin
    low  <= (at_y < job.height[SIZE-1:0]) ? '0
        : (to_first > SIZE'(WORDS + 1)) ? LINE_BITS'(WORDS + 1) : to_first[LINE_BITS-1:0];
    high <= (to_end > SIZE'(WORDS + 1)) ? LINE_BITS'(WORDS + 1) : to_end[LINE_BITS-1:0];
  end

  for (genvar i = 0; i < WORDS; i++) begin : gen_row
    logic turns, turned;  // it is in the line after that of `line`
    size_t x, x_turned;
    lines_t y;
    logic on_x;
    assign turns     = row_x >= room[i*SIZE+:SIZE];
    assign x         = at_x + place[i*SIZE+:SIZE];
    assign x_turned  = at_x - room[i*SIZE+:SIZE];
    assign y         = line[i*LINE_BITS+:LINE_BITS] + LINE_BITS'(turned);
    assign on_map[i] = one || (on_x && y >= low && y < high);
    always_ff @(posedge clk) begin
      turned <= turns;
      on_x   <= turns ? x_turned < job.width[SIZE-1:0] : x < job.width[SIZE-1:0];
    end
  end

  assign beat.residual = 1'b0;
  assign beat.weights = weights;
  assign beat.half    = half;
  assign beat.first   = first;
  assign beat.last    = weights ? ends_weights && no_inputs : ends_p && (one || last_p);
  assign beat.p       = NUMBER'(p);
  assign beat.row     = NUMBER'(row);
  assign beat.column  = NUMBER'(column);
  assign beat.count   = NUMBER'(count);

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  logic active, were_inputs;  // beats of the tile are left; the beat before was taken, and is of inputs
  engine_pkg::number_t was_address, was_count;
  engine_pkg::number_t first_word, words_held, end_of_slot;
  size_t row_end;
  assign row_end     = row - slot_row + (one ? SIZE'(1) : count);
  assign words_held  = (job.runs - 1) * job.x_run + job.B_P * job.x_column;
  assign first_word  = one ? job.x_base : job.x_base + job.pad_y * job.width + job.pad_x;
  assign end_of_slot = (of.has_last && slots_left == 1) ? of.last_height : of.height;

  always @(posedge clk) begin
    active      <= start || (active && !(take && beat.last));
    were_inputs <= !start && take && !weights;
    was_address <= address;
    was_count   <= NUMBER'(count);
    for (int i = 0; i < engine_pkg::W; i++) begin
      assert (!were_inputs || begins || i >= int'(was_count) || !on_map[i]
          || was_address + i * (one ? 1 : job.stride_x) - first_word < words_held)
        else $fatal(1, "an address beyond the maps");
    end
    if (start) begin
      assert (tile.depth != 0 && tile.columns != 0 && tile.height != 0) else $fatal(1, "a tile without sizes");
    end else if (take) begin
      assert (active) else $fatal(1, "a beat beyond the last of its tile");
      assert (count != 0 && count <= W) else $fatal(1, "words of a beat");
      assert (NUMBER'(p) < of.depth) else $fatal(1, "an inner row beyond the tile");
      if (weights) begin
        assert (NUMBER'(column) + NUMBER'(count) <= job.C) else $fatal(1, "weights beyond the columns");
        assert (address - job.w_base + NUMBER'(count) <= (job.groups - 1) * job.w_group + job.P * job.C) else $fatal(1, "an address beyond the weights");
      end else begin
        assert (loads_left != 0 && NUMBER'(row_end) <= end_of_slot) else $fatal(1, "rows beyond the tile");
      end
    end
  end
`endif

endmodule

`default_nettype wire
