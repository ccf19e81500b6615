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
    output       engine_pkg::number_t address,
    output       engine_pkg::store_t beat,
    output logic                     last
);

  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam engine_pkg::number_t W = NUMBER'(engine_pkg::W);
  localparam int S = engine_pkg::S;

  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::tile_t of;
  // verilator lint_on UNUSEDSIGNAL
  logic one;
  engine_pkg::number_t slot, slot_base, slot_column, slot_end;  // of the sample column
  engine_pkg::number_t base, column, row, left, offset;  // base: address of the column, or of the row

  assign one = job.R == 1;

  engine_pkg::number_t room, count, height, next_height, next_end, next_base;
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
    next_end = of.ends[NUMBER-1:0];
    for (int j = 1; j < S; j++) if (slot + 1 == NUMBER'(j)) next_end = of.ends[j*NUMBER+:NUMBER];
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
      slot_end    <= (tile.stored < tile.ends[NUMBER-1:0]) ? tile.stored : tile.ends[NUMBER-1:0];
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

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  logic active;  // beats of the pass are left
  always @(posedge clk) begin
    active <= start ? tile.stored != 0 : active && !(take && last);
    if (!start && take) begin
      assert (active) else $fatal(1, "a beat beyond the last of its pass");
      assert (count != 0 && count <= W) else $fatal(1, "words of a beat");
      assert (column + (one ? count : 1) <= of.stored) else $fatal(1, "columns beyond the tile");
      assert (row + (one ? 1 : count) <= height) else $fatal(1, "rows beyond the tile");
      assert (address - job.y_base + count <= (job.runs - 1) * job.y_run + job.B_P * job.y_column) else $fatal(1, "an address beyond the outputs");
    end
  end
`endif

endmodule

`default_nettype wire
