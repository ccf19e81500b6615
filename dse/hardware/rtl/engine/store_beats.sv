// The beats that store the outputs of a pass: column by column; row by row if a sample has one row.

`default_nettype none

module store_beats (
    input  wire                      clk,
    input  wire                      start,    // the first beat follows in the next cycle
    input  wire                      take,     // the port takes this beat
    // verilator lint_off UNUSEDSIGNAL
    input  wire  engine_pkg::job_t   job,
    // verilator lint_on UNUSEDSIGNAL
    input  wire  engine_pkg::tile_t  tile,     // at `start`
    input  wire                      half,     // of the buffer
    output logic [31:0]              address,
    output       engine_pkg::store_t beat,
    output logic                     last
);

  localparam logic [31:0] W = 32'(engine_pkg::W);
  localparam int S = engine_pkg::S;

  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::tile_t of;
  // verilator lint_on UNUSEDSIGNAL
  logic one;
  logic [31:0] slot, slot_base, slot_column, slot_end;  // of the sample column
  logic [31:0] base, column, row, left, offset;  // base: address of the column, or of the row

  assign one = job.R == 1;

  logic [31:0] room, count, height, next_height, next_end, next_base;
  logic ends_column, ends_sample, ends_slot;
  assign room        = one ? slot_end - column : (job.R - offset < left) ? job.R - offset : left;
  assign count       = (room < W) ? room : W;
  assign height      = (of.has_last && of.slots == slot + 1) ? of.last_height : of.height;
  assign next_height = (of.has_last && of.slots == slot + 2) ? of.last_height : of.height;
  assign ends_sample = offset + count == job.R;
  assign ends_column = one ? column + count == slot_end : left == count;
  assign ends_slot   = ends_column && (one ? left == 1 : column + 1 == slot_end);
  assign last        = ends_slot && slot_end == of.stored;
  assign next_base   = slot_base + job.y_column;

  always_comb begin
    next_end = of.ends[31:0];
    for (int j = 1; j < S; j++) if (slot + 1 == 32'(j)) next_end = of.ends[j*32+:32];
    if (next_end > of.stored) next_end = of.stored;
  end

  assign beat.half   = half;
  assign beat.column = column;
  assign beat.row    = row;
  assign beat.count  = count;

  always_ff @(posedge clk) begin
    if (start) begin
      of          <= tile;
      slot        <= 0;
      slot_base   <= tile.y;
      slot_column <= 0;
      slot_end    <= (tile.stored < tile.ends[31:0]) ? tile.stored : tile.ends[31:0];
      base        <= tile.y + tile.y_c;
      address     <= tile.y + tile.y_c;
      column      <= 0;
      row         <= 0;
      offset      <= tile.offset;
      left        <= (tile.has_last && tile.slots == 1) ? tile.last_height : tile.height;
    end else if (take) begin
      if (ends_slot) begin
        slot        <= slot + 1;
        slot_base   <= next_base;
        slot_column <= slot_end;
        slot_end    <= next_end;
        base        <= next_base;
        address     <= next_base;
        column      <= slot_end;
        row         <= 0;
        offset      <= of.offset;
        left        <= next_height;
      end else if (one) begin
        if (ends_column) begin
          column  <= slot_column;
          row     <= row + 1;
          left    <= left - 1;
          base    <= base + job.y_sample;
          address <= base + job.y_sample;
        end else begin
          column  <= column + count;
          address <= address + count;
        end
      end else if (ends_column) begin
        column  <= column + 1;
        row     <= 0;
        offset  <= of.offset;
        left    <= height;
        base    <= base + job.R;
        address <= base + job.R;
      end else begin  // the next part of a sample, or the next sample
        row     <= row + count;
        left    <= left - count;
        offset  <= ends_sample ? 0 : offset + count;
        address <= address + count + (ends_sample ? job.y_sample - job.R : 0);
      end
    end
  end

endmodule

`default_nettype wire
