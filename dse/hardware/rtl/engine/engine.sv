// The NPU's engine: one port, two of each buffer, and a static program of the port.
//
// After tile 0, each next tile is loaded once a half of the buffers is free; after it goes a share of the store of the
// pass before.  A pass is a tile of columns and a block of rows, over all tiles along P.

`default_nettype none

module engine (
    input  wire                                 clk,
    input  wire                                 rst,         // synchronous, active high
    input  wire                                 start,
    input  wire  [32*engine_pkg::JOB_WORDS-1:0] job,         // an engine_pkg::job_t, stable until `done`
    output logic                                done,

    // Requests: a beat is accepted in a cycle with `valid` and `ready`; `burst` is the cycle before the first of several.
    output logic                                burst,
    output logic                                valid,
    output logic                                write,
    output logic [                        31:0] address,     // of the first word
    output logic [                        31:0] count,       // words, up to W
    input  wire                                 ready,
    // the words of beats read, in order, at least one cycle after each was accepted
    input  wire                                 read_valid,
    input  wire  [        16*engine_pkg::W-1:0] read_words,
    // the words of beats written, four cycles after each was accepted
    output logic [        16*engine_pkg::W-1:0] write_words
);

  localparam int T_P = engine_pkg::T_P;
  localparam int T_C = engine_pkg::T_C;
  localparam int W = engine_pkg::W;
  localparam int S = engine_pkg::S;
  localparam int V = engine_pkg::V;
  localparam int COLUMNS = engine_pkg::COLUMNS;
  localparam int SLOT_BITS = engine_pkg::SLOT_BITS;
  localparam int DRAIN = engine_pkg::DRAIN;
  localparam int FLIGHT_BITS = 7;  // beats accepted whose words have not come: 2**7 at most
  localparam int LATENCY = 8 + engine_pkg::LEVELS;  // from a row to its products' sums

  localparam logic [3:0] IDLE = 0, PREPARE = 1, LOAD_WAIT = 2, LOAD = 3, STORE_WAIT = 4, STORE = 5, LAST_WAIT = 6, LAST = 7,
      DONE = 8;

  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::job_t of;
  engine_pkg::tile_t tile, by_half_0, by_half_1, filling, computing, storing, pass_0, pass_1, pass_2, pass_3;
  engine_pkg::load_t load_beat, arrived;
  engine_pkg::store_t store_beat;
  // verilator lint_on UNUSEDSIGNAL
  assign of = job;

  // The port's program.  Tile i is that after which tile i + 1 loads and a share of the store before its pass goes.
  logic [3:0] state, following;
  logic prepared, more, begun, at_end;  // tiles are left to load; tile 0 is loaded; i is the last tile
  logic has_before, next_has_before;  // tile i is not of the first pass
  logic load_half, store_open;  // store_open: a store has begun and beats are left
  logic [31:0] step, next_step, beats_left;
  // Passes, counted modulo 16: few are under way at once.  stored_pass: the one before the pass of tile i;
  // drained: the first that is not all in the store buffer.
  logic signed [3:0] loading_pass, stored_pass, next_pass, drained, pass, drained_beyond, stored_beyond;
  logic go_load, go_store, take, take_last, store_last, needs_share, next_needs_share, moves_on, open_after, next_empty;
  logic [1:0] occupied;  // tiles whose load has begun and that are not computed
  logic tile_done;
  logic [31:0] load_address, store_address;

  assign next_step       = (!begun || step + 1 == of.steps) ? 0 : step + 1;
  assign next_pass       = (begun && next_step == 0) ? stored_pass + 4'sd1 : stored_pass;
  assign next_has_before = has_before || (begun && next_step == 0);
  assign storing         = stored_pass[1] ? (stored_pass[0] ? pass_3 : pass_2) : (stored_pass[0] ? pass_1 : pass_0);
  assign next_empty      = (next_pass[1] ? (next_pass[0] ? pass_3.stored : pass_2.stored)
      : (next_pass[0] ? pass_1.stored : pass_0.stored)) == 0;

  assign drained_beyond = drained - stored_pass;
  assign go_load        = state == LOAD_WAIT && occupied <= 1;
  assign go_store       = (state == STORE_WAIT || state == LAST_WAIT) && drained_beyond > 0;
  assign burst          = go_load || go_store;
  assign write          = state == STORE || state == LAST;
  assign valid          = state == LOAD || write;
  assign take           = valid && ready;
  assign address        = write ? store_address : load_address;
  assign count          = write ? store_beat.count : load_beat.weights ? load_beat.count : engine_pkg::W;
  assign done           = state == DONE;

  assign take_last  = take && (state == LOAD ? load_beat.last : store_last || (state == STORE && beats_left == 1));
  assign open_after = state == STORE ? !store_last : store_open;

  assign needs_share      = (step == 0) ? has_before && storing.stored != 0 : store_open;
  assign next_needs_share = (next_step == 0) ? next_has_before && !next_empty : open_after;

  always_comb begin
    following = state;
    moves_on  = 1'b0;
    case (state)
      PREPARE: if (prepared) following = LOAD_WAIT;
      LOAD_WAIT: if (go_load) following = LOAD;
      STORE_WAIT: if (go_store) following = STORE;
      LAST_WAIT: if (go_store) following = (storing.stored == 0) ? DONE : LAST;
      LOAD, STORE:
      if (take_last) begin
        if (state == LOAD && begun && needs_share) following = STORE_WAIT;
        else begin
          moves_on  = 1'b1;
          following = more ? LOAD_WAIT : (!at_end && begun && next_needs_share) ? STORE_WAIT : LAST_WAIT;
        end
      end
      LAST: if (take_last) following = DONE;
      default: following = state;
    endcase
    if (start) following = PREPARE;
    if (rst) following = IDLE;
  end

  always_ff @(posedge clk) begin
    state    <= following;
    prepared <= state == PREPARE && !start;
    if (start) begin
      more         <= 1'b1;
      begun        <= 1'b0;
      at_end       <= 1'b0;
      has_before   <= 1'b0;
      load_half    <= 1'b0;
      store_open   <= 1'b0;
      step         <= 0;
      loading_pass <= 0;
      stored_pass  <= -4'sd1;
    end else begin
      if (go_load) begin
        more      <= !tile.final_;
        load_half <= !load_half;
        if (tile.last) loading_pass <= loading_pass + 4'sd1;
        if (load_half) by_half_1 <= tile;
        else by_half_0 <= tile;
        if (loading_pass[1:0] == 0) pass_0 <= tile;
        if (loading_pass[1:0] == 1) pass_1 <= tile;
        if (loading_pass[1:0] == 2) pass_2 <= tile;
        if (loading_pass[1:0] == 3) pass_3 <= tile;
      end
      if (go_store) begin
        beats_left <= of.share;
        store_open <= 1'b1;
      end
      if (take && write) begin
        beats_left <= beats_left - 1;
        if (store_last) store_open <= 1'b0;
      end
      if (moves_on) begin
        begun       <= 1'b1;
        has_before  <= next_has_before;
        step        <= next_step;
        stored_pass <= (following == LAST_WAIT) ? loading_pass - 4'sd1 : next_pass;
        at_end      <= begun && !more;
      end
    end
  end

  tiles position (
      .clk,
      .start,
      .next(go_load),
      .job (of),
      .tile
  );

  load_beats loads (
      .clk,
      .start  (go_load),
      .take   (take && !write),
      .job    (of),
      .tile,
      .half   (!load_half),
      .address(load_address),
      .beat   (load_beat)
  );

  store_beats stores (
      .clk,
      .start  (go_store && !store_open),
      .take   (take && write),
      .job    (of),
      .tile   (storing),
      .half   (stored_pass[0]),
      .address(store_address),
      .beat   (store_beat),
      .last   (store_last)
  );

  // Words that come: those of the beats, in order.
  logic [engine_pkg::LOAD_BITS-1:0] flying[1<<FLIGHT_BITS];
  logic [FLIGHT_BITS-1:0] sent, come;
  logic [1:0] loaded;

  assign arrived = flying[come];
  assign filling = arrived.half ? by_half_1 : by_half_0;

  always_ff @(posedge clk) begin
    if (take && !write) begin
      flying[sent] <= load_beat;
      sent <= sent + 1'b1;
    end
    if (read_valid) come <= come + 1'b1;
    loaded <= {loaded[0], read_valid && arrived.last};
    if (start) {sent, come, loaded} <= '0;
  end

  // Computing: V rows of the tile in each cycle, a step.  The sums of a row are read, added and written: three are in flight.
  logic computes, starts, half, is_row;
  logic [1:0] waiting;  // tiles that are loaded
  logic [31:0] row, row_now, cycles_left, of_rows;  // all in steps

  assign computing     = half ? by_half_1 : by_half_0;
  assign stored_beyond = stored_pass - pass;
  assign starts        = !computes && waiting != 0 && (!computing.last || stored_beyond > -4'sd2);
  assign of_rows       = (computing.height + V - 1) / V;
  assign row_now       = computes ? row : 0;
  assign is_row        = (starts || computes) && row_now < of_rows;
  assign tile_done     = computes && cycles_left == 1;

  always_ff @(posedge clk) begin
    waiting  <= waiting + {1'b0, loaded[1]} - {1'b0, starts};
    occupied <= occupied + {1'b0, go_load} - {1'b0, tile_done};
    if (starts) begin
      computes    <= 1'b1;
      row         <= 1;
      cycles_left <= (of_rows < 3) ? 2 : of_rows - 1;
    end else if (computes) begin
      row         <= row + 1;
      cycles_left <= cycles_left - 1;
    end
    if (tile_done) begin
      computes <= 1'b0;
      half     <= !half;
      if (computing.last) pass <= pass + 4'sd1;
    end
    if (start || rst) begin
      {waiting, occupied, half, computes} <= '0;
      pass <= 0;
    end
  end

  // The way of a row: bit 0 is one cycle after it began.
  // verilator lint_off UNUSEDSIGNAL
  logic [LATENCY+3:0] row_at, first_at, last_at, half_at, pass_at;
  logic [(LATENCY+4)*16-1:0] number_at;
  // verilator lint_on UNUSEDSIGNAL
  logic [DRAIN-1:0] drains;

  always_ff @(posedge clk) begin
    row_at    <= {row_at[LATENCY+2:0], is_row};
    first_at  <= {first_at[LATENCY+2:0], computing.first};
    last_at   <= {last_at[LATENCY+2:0], computing.last};
    half_at   <= {half_at[LATENCY+2:0], half};
    pass_at   <= {pass_at[LATENCY+2:0], pass[0]};
    number_at <= {number_at[(LATENCY+3)*16-1:0], row_now[15:0]};
    drains    <= {drains[DRAIN-2:0], tile_done && computing.last};
    if (drains[DRAIN-1]) drained <= drained + 4'sd1;
    if (start || rst) begin
      row_at  <= '0;
      drains  <= '0;
      drained <= 0;
    end
  end

  // Data.
  logic [V*2*T_P*S*16-1:0] x;
  logic [T_C*16*T_P-1:0] weight;
  logic [T_C*2*SLOT_BITS-1:0] slot;
  logic [V*W*16-1:0] stored;

  inputs input_buffer (
      .clk,
      .k        (of.k[1:0]),
      .one      (of.along_P[0]),
      .stride_x (of.stride_x),
      .slot_rows(of.slot_rows),
      .write    (read_valid && !arrived.weights),
      .beat     (arrived),
      .words    (read_words),
      .half,
      .row      (row_now * V),
      .x
  );

  for (genvar e = 0; e < T_C; e++) begin : gen_weights
    weights #(
        .E(e)
    ) weight_buffer (
        .clk,
        .k     (of.k[1:0]),
        .write (read_valid && arrived.weights),
        .beat  (arrived),
        .tile  (filling),
        .words (read_words),
        .half  (half_at[3]),
        .weight(weight[e*16*T_P+:16*T_P]),
        .slot  (slot[e*2*SLOT_BITS+:2*SLOT_BITS])
    );
  end

  // Of each of V rows: elements, which share the weights, and a store buffer.
  for (genvar v = 0; v < V; v++) begin : gen_row
    logic [T_C*48-1:0] whole;
    logic [T_C*16-1:0] out_lower, out_upper;
    logic [COLUMNS*16-1:0] outs;

    for (genvar e = 0; e < T_C; e++) begin : gen_element
      logic [47:0] lower, upper, last_lower, last_upper, neighbour, sum_lower, sum_upper;

      element #(
          .E(e)
      ) trees (
          .clk,
          .k     (of.k[1:0]),
          .x     (x[v*2*T_P*S*16+:2*T_P*S*16]),
          .weight(weight[e*16*T_P+:16*T_P]),
          .slot  (slot[e*2*SLOT_BITS+:2*SLOT_BITS]),
          .lower,
          .upper
      );

      // the two trees of an element add up, then under k = 2 those of two neighbours
      if (e % 2 == 0 && e + 1 < T_C) begin : gen_pair
        assign neighbour = (of.k[1:0] == engine_pkg::K_TWO) ? whole[(e+1)*48+:48] : '0;
      end else begin : gen_single
        assign neighbour = '0;
      end

      always_ff @(posedge clk) begin
        whole[e*48+:48] <= lower + upper;
        last_lower      <= lower;
        last_upper      <= upper;
        sum_lower       <= (of.k[1:0] == engine_pkg::K_HALF) ? last_lower : whole[e*48+:48] + neighbour;
        sum_upper       <= last_upper;
      end

      sums accumulator (
          .clk,
          .k        (of.k[1:0]),
          .shift    (of.shift[5:0]),
          .relu     (of.relu[0]),
          .valid    (row_at[LATENCY-1]),
          .first    (first_at[LATENCY-1]),
          .next_row ({16'b0, number_at[(LATENCY-2)*16+:16]}),
          .lower    (sum_lower),
          .upper    (sum_upper),
          .out_lower(out_lower[e*16+:16]),
          .out_upper(out_upper[e*16+:16])
      );
    end

    for (genvar c = 0; c < COLUMNS; c++) begin : gen_column
      logic [15:0] of_one, of_pair, of_half;
      if (c < T_C) begin : gen_one
        assign of_one = out_lower[c*16+:16];
      end else begin : gen_no_one
        assign of_one = '0;
      end
      if (2 * c < T_C) begin : gen_pair
        assign of_pair = out_lower[2*c*16+:16];
      end else begin : gen_no_pair
        assign of_pair = '0;
      end
      if (c / 2 >= T_C) begin : gen_no_half
        assign of_half = '0;
      end else if (c % 2 == 0) begin : gen_lower
        assign of_half = out_lower[c/2*16+:16];
      end else begin : gen_upper
        assign of_half = out_upper[c/2*16+:16];
      end
      assign outs[c*16+:16] = (of.k[1:0] == engine_pkg::K_TWO) ? of_pair
          : (of.k[1:0] == engine_pkg::K_HALF) ? of_half : of_one;
    end

    outputs #(
        .ROW(v)
    ) store_buffer (
        .clk,
        .k    (of.k[1:0]),
        .one  (of.R == 1),
        .write(row_at[LATENCY+3] && last_at[LATENCY+3]),
        .half (pass_at[LATENCY+3]),
        .row  ({16'b0, number_at[(LATENCY+3)*16+:16]}),
        .beat (store_beat),
        .outs,
        .words(stored[v*W*16+:W*16])
    );
  end

  // Words of a beat are of rows in turn; of one row, if they are of columns.
  localparam int PLACE_BITS = (V > 1) ? $clog2(V) : 1;
  logic [4*PLACE_BITS-1:0] places;  // of its first row among V
  // verilator lint_off UNUSEDSIGNAL
  logic [31:0] place;  // 0 if V is 1
  // verilator lint_on UNUSEDSIGNAL

  assign place = 32'(places[3*PLACE_BITS+:PLACE_BITS]);

  always_ff @(posedge clk) places <= {places[3*PLACE_BITS-1:0], store_beat.row[PLACE_BITS-1:0]};

  for (genvar i = 0; i < W; i++) begin : gen_word
    assign write_words[i*16+:16] = (of.R == 1) ? stored[(place%V*W+i)*16+:16] : stored[((place+i)%V*W+i/V)*16+:16];
  end

endmodule

`default_nettype wire
