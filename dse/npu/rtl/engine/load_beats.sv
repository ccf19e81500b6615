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
    output logic [31:0]             address,
    output       engine_pkg::load_t beat
);

  localparam logic [31:0] W = 32'(engine_pkg::W);

  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::tile_t of;
  // verilator lint_on UNUSEDSIGNAL
  logic one, weights, piece, first;
  logic [31:0] begins, wide, rest;  // pieces of weights: the first column, columns of the first, of the second
  logic [31:0] base;  // address of the row of weights, or of the inputs of the first slot
  logic [31:0] p, column, left;  // left: columns of this piece, or rows of this slot
  logic [31:0] slot, slot_base, slot_row, row_base, row, offset;

  assign one = job.R == 1;

  // a tile of at least all columns reads each once
  logic whole;
  logic [31:0] from, columns;
  assign whole   = tile.columns >= job.C;
  assign from    = whole ? 0 : tile.column;
  assign columns = whole ? job.C : (tile.columns < tile.ends[31:0]) ? tile.columns : tile.ends[31:0];

  // this beat
  logic [31:0] room, count;
  assign room  = weights ? left : one ? of.depth - p : (job.R - offset < left) ? job.R - offset : left;
  assign count = (room < W) ? room : W;

  // what ends with it
  logic ends_piece, ends_row, ends_slot, ends_p, ends_weights, at_last;
  logic [31:0] next_height, next_base;
  assign ends_piece   = left <= W;
  assign ends_row     = one ? p + count == of.depth : offset + count == job.R;
  assign ends_slot    = one ? ends_row && left == 1 : left == count;
  assign ends_weights = ends_piece && (piece || rest == 0) && p + 1 == of.depth;
  assign ends_p       = ends_slot && slot + 1 == of.loaded;
  assign at_last      = of.has_last && of.slots == ((weights || ends_p) ? 1 : slot + 2);
  assign next_height  = at_last ? of.last_height : of.height;
  assign next_base    = weights ? of.x : ends_p ? base + job.R : slot_base + job.x_column;

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
      of      <= tile;
      weights <= 1'b1;
      first   <= 1'b1;
      piece   <= 1'b0;
      p       <= 0;
      base    <= tile.w;
      begins  <= from;
      column  <= from;
      address <= tile.w + from;
      left    <= columns;
      wide    <= columns;
      rest    <= whole ? 0 : tile.columns - columns;
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
        slot_base <= next_base;
        row_base  <= next_base;
        address   <= next_base;
        if (weights || ends_p) begin
          p        <= (weights || one) ? 0 : p + 1;
          slot     <= 0;
          slot_row <= 0;
          base     <= next_base;
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
      end else begin  // the next part of a sample, or the next sample
        row     <= row + count;
        left    <= left - count;
        offset  <= ends_row ? 0 : offset + count;
        address <= address + count + (ends_row ? job.x_sample - job.R : 0);
      end
    end
  end

endmodule

`default_nettype wire
