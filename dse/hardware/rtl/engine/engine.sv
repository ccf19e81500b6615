// The NPU's engine: one port, whose program is in port.sv, two of each buffer, and the array of elements.

`default_nettype none

module engine (
    input  wire                      clk,
    input  wire                      rst,         // synchronous, active high
    input  wire                      start,
    input  wire engine_pkg::words_t  job,         // an engine_pkg::job_t, stable until `done`
    output logic                     done,

    // Requests: a beat is accepted in a cycle with `valid` and `ready`; `burst` is the cycle before the first of several.
    output logic                     burst,
    output logic                     valid,
    output logic                     write,
    output      engine_pkg::number_t address,     // of the first word
    output      engine_pkg::number_t count,       // words, up to W
    input  wire                      ready,
    // the words of beats read, in order, at least one cycle after each was accepted
    input  wire                      read_valid,
    input  wire engine_pkg::beat_t   read_words,
    // the words of beats written, WRITE_DELAY cycles after each was accepted
    output      engine_pkg::beat_t   write_words
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int SUM = engine_pkg::SUM_BITS;
  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int K_BITS = engine_pkg::K_BITS;
  localparam int SHIFT_BITS = engine_pkg::SHIFT_BITS;
  localparam int T_P = engine_pkg::T_P;
  localparam int T_C = engine_pkg::T_C;
  localparam int W = engine_pkg::W;
  localparam int S = engine_pkg::S;
  localparam int COLUMN = engine_pkg::COLUMN_BITS + 1;
  localparam int V = engine_pkg::V;
  localparam int COLUMNS = engine_pkg::COLUMNS;
  localparam int SLOT_BITS = engine_pkg::SLOT_BITS;
  localparam int DRAIN = engine_pkg::DRAIN;
  localparam int FLIGHT_BITS = engine_pkg::FLIGHT_BITS;
  localparam int START = engine_pkg::START;
  localparam int IN_FLIGHT = engine_pkg::IN_FLIGHT;
  localparam int LATENCY = engine_pkg::ROW_CYCLES;  // from a row to its products' sums
  localparam int SIZE = engine_pkg::SIZE_BITS;
  localparam int PASS_BITS = engine_pkg::PASS_BITS;
  localparam logic signed [PASS_BITS-1:0] ONE = 1;

  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::job_t of;
  engine_pkg::tile_t by_half_0, by_half_1, computing;
  engine_pkg::load_t load_beat, was_beat, arrived, written, written_1, written_2;
  engine_pkg::store_t store_beat;
  // verilator lint_on UNUSEDSIGNAL
  assign of = job;

  // The port's program.
  logic take, stores, tile_done;  // a beat of a load, or of a store, is accepted; a tile is computed
  logic [FLIGHT_BITS:0] in_flight;  // beats that are accepted and whose words have not come
  logic signed [PASS_BITS-1:0] stored_pass, pass, stored_beyond;
  logic [DRAIN-1:0] drains;

  port memory_port (
      .clk,
      .rst,
      .start,
      .job         (of),
      .done,
      .burst,
      .valid,
      .write,
      .address,
      .count,
      .ready,
      .hold        (in_flight[FLIGHT_BITS]),
      .tile_done,
      .pass_drained(drains[DRAIN-1]),
      .comes       (writes && written.residual),
      .loads       (take),
      .stores,
      .load_beat,
      .on_map,
      .store_beat,
      .by_half_0,
      .by_half_1,
      .stored_pass
  );

  // Words that come, in the order of the beats.
  // Noted in the cycle after a beat is accepted, which has its map; the first words may come in this cycle.
  (* ram_style = engine_pkg::ULTRA_BEATS > 0 ? "ultra" : engine_pkg::STYLE_BEATS *) logic [engine_pkg::LOAD_BITS-1:0] flying[1<<FLIGHT_BITS];
  logic [engine_pkg::LOAD_BITS-1:0] note;
  engine_pkg::map_t on_map, arrived_map, written_map;
  logic [FLIGHT_BITS-1:0] sent, come, was_sent;
  logic was_taken;
  logic [START:0] loaded;

  assign note = {was_beat, on_map};
  assign {arrived, arrived_map} = (was_taken && was_sent == come) ? note : flying[come];

  // What is written, a cycle later, and the two cycles after it.  Products begin later still, so each buffer has time to
  // find the places of the words first.
  logic writes, writes_1, writes_2;
  engine_pkg::beat_t words, words_1, words_2;
  engine_pkg::number_t first_column;  // of the tile, in its first sample
  engine_pkg::columns_t ends, begins;

  always_ff @(posedge clk) begin
    {writes_2, writes_1, writes}    <= {writes_1, writes, read_valid};
    {words_2, words_1, words}       <= {words_1, words, read_words};
    {written_2, written_1, written} <= {written_1, written, arrived};
    written_map  <= arrived_map;
    first_column <= arrived.half ? by_half_1.column : by_half_0.column;
  end

  for (genvar j = 0; j < S; j++) begin : gen_sample
    engine_pkg::number_t begin_;
    if (j == 0) begin : gen_first
      assign begin_ = -first_column;
    end else begin : gen_next
      assign begin_ = NUMBER'(ends[(j-1)*COLUMN+:COLUMN]);
    end
    always_ff @(posedge clk) begin
      ends[j*COLUMN+:COLUMN] <= arrived.half ? engine_pkg::column_of(by_half_1.ends[j*NUMBER+:NUMBER])
          : engine_pkg::column_of(by_half_0.ends[j*NUMBER+:NUMBER]);
      begins[j*COLUMN+:COLUMN] <= engine_pkg::column_of(begin_ + written.column + W);
    end
  end

  always_ff @(posedge clk) begin
    was_taken <= take;
    was_sent  <= sent;
    was_beat  <= load_beat;
    if (was_taken) flying[was_sent] <= note;
    if (take) sent <= sent + 1'b1;
    if (read_valid) come <= come + 1'b1;
    in_flight <= in_flight + (FLIGHT_BITS + 1)'(take) - (FLIGHT_BITS + 1)'(read_valid);
    loaded <= (START + 1)'({loaded, read_valid && arrived.last});
    if (start) {sent, come, loaded, in_flight} <= '0;
  end

  // Computing: V rows of the tile in each cycle, a step.  The sums of a row are read, added and written: IN_FLIGHT at once.
  logic computes, starts, half, is_row, more, at_end;  // rows follow; the tile's last cycle
  logic [1:0] waiting;  // tiles that are loaded
  engine_pkg::number_t row, row_now;  // all in steps
  logic [SIZE-1:0] steps_0, steps_1, of_rows, rows_left, cycles_left;  // of the tiles of both halves

  assign computing     = half ? by_half_1 : by_half_0;
  assign stored_beyond = stored_pass - pass;
  assign starts        = !computes && waiting != 0 && (!computing.last || stored_beyond >= -ONE);
  assign of_rows       = half ? steps_1 : steps_0;
  assign row_now       = computes ? row : 0;
  assign is_row        = starts || (computes && more);
  assign tile_done     = computes && at_end;

  always_ff @(posedge clk) begin
    steps_0 <= SIZE'((by_half_0.height + V - 1) / V);
    steps_1 <= SIZE'((by_half_1.height + V - 1) / V);
    waiting <= waiting + {1'b0, loaded[START-1]} - {1'b0, starts};
    if (starts) begin
      computes    <= 1'b1;
      row         <= 1;
      more        <= of_rows != 1;
      at_end      <= 1'b0;
      rows_left   <= of_rows - 1'b1;
      cycles_left <= (of_rows < SIZE'(IN_FLIGHT)) ? SIZE'(IN_FLIGHT - 1) : of_rows - 1'b1;
    end else if (computes) begin
      row         <= row + 1;
      more        <= more && rows_left != 1;
      at_end      <= cycles_left == 2;
      rows_left   <= rows_left - 1'b1;
      cycles_left <= cycles_left - 1'b1;
    end
    if (tile_done) begin
      computes <= 1'b0;
      half     <= !half;
      if (computing.last) pass <= pass + ONE;
    end
    if (start || rst) begin
      {waiting, half, computes} <= '0;
      pass <= 0;
    end
  end

  // The way of a row: bit 0 is one cycle after it began.
  // verilator lint_off UNUSEDSIGNAL
  logic [LATENCY+3:0] row_at, first_at, last_at, half_at, pass_at;
  logic [(LATENCY+4)*SIZE-1:0] number_at;
  // verilator lint_on UNUSEDSIGNAL

  always_ff @(posedge clk) begin
    row_at    <= {row_at[LATENCY+2:0], is_row};
    first_at  <= {first_at[LATENCY+2:0], computing.first};
    last_at   <= {last_at[LATENCY+2:0], computing.last};
    half_at   <= {half_at[LATENCY+2:0], half};
    pass_at   <= {pass_at[LATENCY+2:0], pass[0]};
    number_at <= {number_at[(LATENCY+3)*SIZE-1:0], row_now[SIZE-1:0]};
    drains    <= {drains[DRAIN-2:0], tile_done && computing.last};
    if (start || rst) begin
      row_at  <= '0;
      drains  <= '0;
    end
  end

  // The weights of a tile move to the multipliers once all are there, and the rows of the tile before it are through.
  localparam int THROUGH = 4;  // cycles from a tile's last one, in which a row may begin, to this decision
  logic moves, held, unused;  // weights wait; the multipliers wait for some
  logic [THROUGH-1:0] through;

  always_ff @(posedge clk) begin
    through <= {through[THROUGH-2:0], tile_done};
    moves   <= (held || loaded[START]) && (unused || through[THROUGH-1]);
    held    <= (held || loaded[START]) && !(unused || through[THROUGH-1]);
    unused  <= (unused || through[THROUGH-1]) && !(held || loaded[START]);
    if (start || rst) begin
      {moves, held, through} <= '0;
      unused <= 1'b1;
    end
  end

  // Data.
  logic [V*2*T_P*S*WORD-1:0] x;
  logic [T_C*WORD*T_P-1:0] weight;
  logic [T_C*2*SLOT_BITS-1:0] slot;
  logic [V*W*WORD-1:0] stored;

  inputs input_buffer (
      .clk,
      .k        (of.k[K_BITS-1:0]),
      .one      (of.along_P[0]),
      .stride_x (of.stride_x),
      .slot_rows(of.slot_rows),
      .next_beat(written),
      .next_map (written_map),
      .write    (writes_1 && !written_1.weights && !written_1.residual),
      .beat     (written_1),
      .words    (words_1),
      .half,
      .row      (row_now * V),
      .x
  );

  for (genvar e = 0; e < T_C; e++) begin : gen_weights
    weights #(
        .E(e)
    ) weight_buffer (
        .clk,
        .k     (of.k[K_BITS-1:0]),
        .ends,
        .begins,
        .count (COLUMN'(written_1.count)),
        .write (writes_2 && written_2.weights && !written_2.residual),
        .beat  (written_2),
        .words (words_2),
        .half  (half_at[3]),
        .weight(weight[e*WORD*T_P+:WORD*T_P]),
        .slot  (slot[e*2*SLOT_BITS+:2*SLOT_BITS])
    );
  end

  // Of each of V rows: elements, which share the weights, and a store buffer.
  for (genvar v = 0; v < V; v++) begin : gen_row
    logic [T_C*SUM-1:0] whole;
    logic [T_C*WORD-1:0] out_lower, out_upper;
    logic [COLUMNS*WORD-1:0] outs;

    for (genvar e = 0; e < T_C; e++) begin : gen_element
      engine_pkg::sum_t lower, upper, last_lower, last_upper, neighbour, both, pair, sum_lower, sum_upper;

      element #(
          .E(e)
      ) trees (
          .clk,
          .maximum(of.maximum[0]),
          .k     (of.k[K_BITS-1:0]),
          .x     (x[v*2*T_P*S*WORD+:2*T_P*S*WORD]),
          .moves,
          .weight(weight[e*WORD*T_P+:WORD*T_P]),
          .slot  (slot[e*2*SLOT_BITS+:2*SLOT_BITS]),
          .lower,
          .upper
      );

      // the two trees of an element add up, then under k = 2 two neighbours
      if (e % 2 == 0 && e + 1 < T_C) begin : gen_pair
        assign neighbour = (of.k[K_BITS-1:0] == engine_pkg::K_2) ? whole[(e+1)*SUM+:SUM] : '0;
      end else begin : gen_single
        assign neighbour = '0;
      end

      if (e < 2) begin : gen_maxima
        assign both = of.maximum[0] ? engine_pkg::larger(lower[WORD-1:0], upper[WORD-1:0]) : lower + upper;
        assign pair = of.maximum[0] ? engine_pkg::larger(whole[e*SUM+:WORD], neighbour[WORD-1:0])
            : whole[e*SUM+:SUM] + neighbour;
      end else begin : gen_sums
        assign both = lower + upper;
        assign pair = whole[e*SUM+:SUM] + neighbour;
      end

      always_ff @(posedge clk) begin
        whole[e*SUM+:SUM] <= both;
        last_lower      <= lower;
        last_upper      <= upper;
        sum_lower       <= (of.k[K_BITS-1:0] == engine_pkg::K_HALF) ? last_lower : pair;
        sum_upper       <= last_upper;
      end

      sums #(
          .BANK  (2 * (v * T_C + e)),
          .MAXIMA(e == 0)
      ) accumulator (
          .clk,
          .maximum  (of.maximum[0]),
          .k        (of.k[K_BITS-1:0]),
          .shift    (of.shift[SHIFT_BITS-1:0]),
          .valid    (row_at[LATENCY-1]),
          .first    (first_at[LATENCY-1]),
          .next_row (NUMBER'(number_at[(LATENCY-2)*SIZE+:SIZE])),
          .lower    (sum_lower),
          .upper    (sum_upper),
          .out_lower(out_lower[e*WORD+:WORD]),
          .out_upper(out_upper[e*WORD+:WORD])
      );
    end

    for (genvar c = 0; c < COLUMNS; c++) begin : gen_column
      engine_pkg::word_t of_one, of_pair, of_half;
      if (c < T_C) begin : gen_one
        assign of_one = out_lower[c*WORD+:WORD];
      end else begin : gen_no_one
        assign of_one = '0;
      end
      if (2 * c < T_C) begin : gen_pair
        assign of_pair = out_lower[2*c*WORD+:WORD];
      end else begin : gen_no_pair
        assign of_pair = '0;
      end
      if (c / 2 >= T_C) begin : gen_no_half
        assign of_half = '0;
      end else if (c % 2 == 0) begin : gen_lower
        assign of_half = out_lower[c/2*WORD+:WORD];
      end else begin : gen_upper
        assign of_half = out_upper[c/2*WORD+:WORD];
      end
      assign outs[c*WORD+:WORD] = (of.k[K_BITS-1:0] == engine_pkg::K_2) ? of_pair
          : (of.k[K_BITS-1:0] == engine_pkg::K_HALF) ? of_half : of_one;
    end

    outputs #(
        .ROW(v)
    ) store_buffer (
        .clk,
        .k    (of.k[K_BITS-1:0]),
        .one  (of.R == 1),
        .write(row_at[LATENCY+3] && last_at[LATENCY+3]),
        .half (pass_at[LATENCY+3]),
        .row  (NUMBER'(number_at[(LATENCY+3)*SIZE+:SIZE])),
        .beat (store_beat),
        .outs,
        .words(stored[v*W*WORD+:W*WORD])
    );
  end

  // Words of a beat are of rows in turn; of one row, if they are of columns.
  localparam int PLACE_BITS = (V > 1) ? $clog2(V) : 1;
  localparam int TURNED = 4;  // cycles from a beat to its words in turn
  logic [TURNED*PLACE_BITS-1:0] places;  // of its first row among V
  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::number_t place;  // 0 if V is 1
  // verilator lint_on UNUSEDSIGNAL
  engine_pkg::beat_t in_turn, of_product;
  engine_pkg::residuals_t sums;
  logic [TURNED-1:0] stored_at;  // beats of a store, bit 0 one cycle after each is accepted

  assign place = NUMBER'(places[(TURNED-1)*PLACE_BITS+:PLACE_BITS]);

  always_ff @(posedge clk) begin
    places    <= {places[(TURNED-1)*PLACE_BITS-1:0], store_beat.row[PLACE_BITS-1:0]};
    stored_at <= {stored_at[TURNED-2:0], stores};
    if (start) stored_at <= '0;
  end

  for (genvar i = 0; i < W; i++) begin : gen_word
    assign in_turn[i*WORD+:WORD] = (of.R == 1) ? stored[(place%V*W+i)*WORD+:WORD] : stored[((place+i)%V*W+i/V)*WORD+:WORD];
  end

  bounds of_layer (
      .clk,
      .low    (of.product_bounds[WORD-1:0]),
      .high   (of.product_bounds[2*WORD-1:WORD]),
      .words  (in_turn),
      .bounded(of_product)
  );

  residual addends (
      .clk,
      .start,
      .addition  (of.addition),
      .comes     (writes && written.residual),
      .read_words(words),
      .pops      (stored_at[TURNED-1]),
      .words     (of_product),
      .sums
  );

  bounds #(
      .WIDTH(engine_pkg::RESIDUAL_BITS)
  ) of_sum (
      .clk,
      .low    (of.low[WORD-1:0]),
      .high   (of.high[WORD-1:0]),
      .words  (sums),
      .bounded(write_words)
  );

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  localparam logic [FLIGHT_BITS:0] IN_PORT = 1 << FLIGHT_BITS;
  localparam logic [1:0] HALVES = 2;
  logic busy;
  logic signed [PASS_BITS-1:0] pass_beyond;  // beyond the pass that is stored
  engine_pkg::words_t was_job;
  assign pass_beyond = pass - stored_pass;

  always @(posedge clk) begin
    busy      <= !rst && (start || (busy && !done));
    was_job   <= job;
    if (busy && !start && !rst) begin
      assert (job == was_job) else $fatal(1, "a job changes while it runs");
      assert (!take || in_flight < IN_PORT) else $fatal(1, "more beats are in flight than their notes are held");
      assert (!read_valid || in_flight != 0) else $fatal(1, "words come that no beat asked for");
      assert (!loaded[START-1] || waiting < HALVES) else $fatal(1, "more tiles wait than halves");
      assert (!held || !writes_2 || !written_2.weights || written_2.residual) else $fatal(1, "weights that wait are lost");
      assert (!starts || !computing.last || pass_beyond <= ONE) else $fatal(1, "the half of the store buffer is not free");
      assert (!starts || (computing.height != 0 && computing.height <= of.rows)) else $fatal(1, "rows of a tile");
    end
    if (start && !rst) begin
      assert (of.k <= NUMBER'(engine_pkg::K_HALF)) else $fatal(1, "the code of k");
      assert (of.shift < engine_pkg::SUM_BITS) else $fatal(1, "the shift");
      assert (of.R != 0 && of.P != 0 && of.C != 0 && of.groups != 0) else $fatal(1, "a product without sizes");
      assert (of.runs != 0 && of.B_P != 0 && of.share != 0) else $fatal(1, "a job without samples or stores");
      assert (of.rows != 0 && of.rows <= engine_pkg::T_R) else $fatal(1, "rows of a block: 1 to T_R");
      assert (((of.C | of.rows | of.width | of.height) >> SIZE) == 0) else $fatal(1, "sizes beyond their counters");
      assert (of.columns == of.B_P * of.C && of.filled <= of.down) else $fatal(1, "columns and rows of the layout");
      assert (of.T_P <= 2 * T_P && of.T_C <= 2 * T_C) else $fatal(1, "a tile larger than the design");
      assert (of.steps * of.T_P >= of.P && (of.steps - 1) * of.T_P < of.P) else $fatal(1, "tiles along P");
      assert (of.maximum == 0 || of.columns == 1) else $fatal(1, "a maximum beyond the first column");
      assert (of.slot_rows % V == 0 && of.slot_rows >= of.rows) else $fatal(1, "rows from a sample to the next");
    end
  end
`endif

endmodule

`default_nettype wire
