// The port's static program: in which order loads and stores go.
//
// After tile 0, each next tile is loaded once a half of the buffers is free; after it goes a share of the store of the
// pass before.  A pass is a tile of columns and a block of rows, over all tiles along P.
//
// If a residual map is added to the outputs, the port reads it in chunks, each before the store adds to it: the first of a
// share before the tile is loaded, so that the words come meanwhile.

`default_nettype none

module port (
    input  wire                       clk,
    input  wire                       rst,
    input  wire                       start,
    // verilator lint_off UNUSEDSIGNAL
    input  wire engine_pkg::job_t     job,
    // verilator lint_on UNUSEDSIGNAL
    output logic                      done,

    // requests, as engine.sv describes them
    output logic                      burst,
    output logic                      valid,
    output logic                      write,
    output      engine_pkg::number_t  address,
    output      engine_pkg::number_t  count,
    input  wire                       ready,
    input  wire                       hold,          // as many beats are in flight as are noted: no load goes

    // what becomes of the tiles
    input  wire                       tile_done,     // one is computed: a half of the buffers is free
    input  wire                       pass_drained,  // one more pass is all in the store buffer
    input  wire                       comes,         // words of a residual map do
    output logic                      loads,         // a beat of a load, or of a residual map, is accepted
    output logic                      stores,        // a beat of a store is
    output      engine_pkg::load_t    load_beat,
    output      engine_pkg::map_t     on_map,        // of the load in the cycle before
    output      engine_pkg::store_t   store_beat,
    output      engine_pkg::tile_t    by_half_0,     // tiles of both halves
    output      engine_pkg::tile_t    by_half_1,
    output logic signed [engine_pkg::PASS_BITS-1:0] stored_pass
);

  localparam int PASS_BITS = engine_pkg::PASS_BITS;
  localparam logic signed [PASS_BITS-1:0] ONE = 1;
  localparam int AHEAD_BITS = engine_pkg::AHEAD_BITS;
  localparam int STATES = 10;  // a bit for each
  localparam int IDLE = 0, PREPARE = 1, LOAD_WAIT = 2, LOAD = 3, STORE_WAIT = 4, STORE = 5, LAST_WAIT = 6, LAST = 7,
      DONE = 8, FETCH = 9;

  // Tile i is that after which tile i + 1 loads and a share of the store before its pass goes.
  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::tile_t tile, storing, next_storing, pass_0, pass_1, pass_2, pass_3;
  // verilator lint_on UNUSEDSIGNAL
  logic [STATES-1:0] state, following;
  logic made;  // what the loader makes for the job
  logic tile_comes, two_tiles;  // a tile is there in the next cycle; one is in this cycle, and the tile after it
  logic more, begun, at_end;  // tiles are left to load; tile 0 is loaded; i is the last tile
  logic has_before, next_has_before;  // tile i is not of the first pass
  logic load_half, store_open;  // store_open: a store has begun and beats are left
  logic step_0, turns, next_0;  // tile i, i + 1 is the first of its pass; `turns`: i is the last of one
  logic [2**2-1:0] empties;  // by pass: nothing is stored of it
  logic empty, share_end;  // the same of `storing`; the beat is the last of its share
  logic empty_after;  // the same of the pass of tile i, from the second cycle of i on
  engine_pkg::number_t step, beats_left;
  // Passes, counted modulo 2 ** PASS_BITS: few are under way at once.  stored_pass: the one before the pass of tile i;
  // drained: the first that is not all in the store buffer.
  logic signed [PASS_BITS-1:0] loading_pass, stored_after, stored_last, next_pass, drained, next_drained;
  logic needs_share, next_needs_share, shares, moves_on, moved, open_after, one_share;
  logic [1:0] occupied;  // tiles whose load has begun and that are not computed
  engine_pkg::number_t load_address, fetch_address, store_address;
  engine_pkg::load_t loader_beat;

  // Of a residual map: beats that are read and not stored, those whose words are there, beats left of the share.
  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::addition_t addition;
  // verilator lint_on UNUSEDSIGNAL
  logic adds, fetch_open, none_ahead, chunk_end, chunk_full, may_store;  // may_store: the words of a beat are there
  logic [AHEAD_BITS:0] ahead, there;
  engine_pkg::number_t fetch_left;
  logic [2:0] resumed;  // by the state from which it fetches
  assign addition = job.addition[engine_pkg::ADDITION_BITS-1:0];
  assign adds     = addition.adds;

  // Beats.
  logic load_take, fetch_take, load_end, fetch_last, fetch_end, store_last, store_end;
  assign write      = state[STORE] || state[LAST];
  assign valid      = ((state[LOAD] || state[FETCH]) && !hold) || (write && may_store);
  assign address    = write ? store_address : state[FETCH] ? fetch_address : load_address;
  assign count      = write ? store_beat.count : load_beat.residual || !load_beat.weights ? engine_pkg::W : load_beat.count;
  assign loads      = ready && !hold && (state[LOAD] || state[FETCH]);
  assign load_take  = ready && !hold && state[LOAD];
  assign fetch_take = ready && !hold && state[FETCH];
  assign stores     = ready && may_store && write;
  assign load_end   = load_take && loader_beat.last;
  assign fetch_end  = fetch_take && (fetch_last || chunk_full);
  assign store_end  = stores && (store_last || (state[STORE] && share_end));
  assign done       = state[DONE];

  always_comb begin
    load_beat          = loader_beat;
    load_beat.residual = state[FETCH];
    load_beat.last     = loader_beat.last && state[LOAD];
  end

  // What follows tile i: the load of tile i + 1, a share of a store, or all that is left.
  logic to_share, to_last;
  assign next_0           = !begun || turns;
  assign stored_after     = stored_pass + ONE;
  assign stored_last      = loading_pass - ONE;
  assign next_pass        = turns ? stored_after : stored_pass;
  assign next_has_before  = has_before || turns;
  assign open_after       = state[STORE] ? !store_last : store_open;
  assign needs_share      = step_0 ? has_before && !empty : store_open;
  assign next_needs_share = next_0 ? turns && !empty_after : open_after;
  assign shares           = begun && needs_share;
  assign moves_on         = (load_end && !shares) || (store_end && state[STORE]);
  assign to_share         = !more && !at_end && begun && next_needs_share;
  assign to_last          = !more && !to_share;

  // Made ready for the next store as i moves on: of the pass before that of tile i + 1, or at the end of the last pass.
  // A store that has begun does not look at it, so it is made in every cycle in which i might move on.
  logic [1:0] next_stored;
  logic next_stores;
  assign next_stores  = !at_end && turns && !empty_after;
  assign next_stored  = (more || next_stores) ? next_pass[1:0] : stored_last[1:0];
  assign next_storing = next_stored[1] ? (next_stored[0] ? pass_3 : pass_2) : (next_stored[0] ? pass_1 : pass_0);

  // What begins in a cycle is decided in the cycle before, so that registers start the parts.  `next_...` and `follows`
  // are of the next cycle; `drains_...`: the pass before that of tile i, that pass, the last one is all in the store buffer.
  logic go_load, go_fetch, go_store, next_load, next_fetch, next_store;
  logic [1:0] into_half;  // a load begins, by half
  logic [2**2-1:0] into_pass;  // ... by pass
  logic next_empty, next_shares, none_follows, next_may_store, next_drains, is_free;
  logic drains_here, drains_after, drains_last;
  logic signed [PASS_BITS-1:0] beyond_here, beyond_after, beyond_last;
  assign next_drained   = drained + {{(PASS_BITS - 1) {1'b0}}, pass_drained};
  assign beyond_here    = next_drained - stored_pass;
  assign beyond_after   = next_drained - stored_after;
  assign beyond_last    = next_drained - stored_last;
  assign drains_here    = beyond_here > 0;
  assign drains_after   = beyond_after > 0;
  assign drains_last    = beyond_last > 0;
  assign next_drains    = !moves_on ? drains_here : to_last ? drains_last : turns ? drains_after : drains_here;
  assign next_empty     = moves_on ? empties[next_stored] : empty;
  assign next_shares    = moves_on ? next_needs_share : shares;
  assign none_follows   = stores ? chunk_end : none_ahead && !fetch_take;
  assign next_may_store = !adds || comes || (stores ? there > 1 : there != 0);
  assign is_free        = !occupied[1] || tile_done;  // while no load begins
  assign next_fetch     = adds && none_follows
      && ((following[LOAD_WAIT] && next_shares) || following[STORE_WAIT] || (following[LAST_WAIT] && !next_empty));
  assign next_load      = following[LOAD_WAIT] && tile_comes && is_free && !(adds && none_follows && next_shares);
  assign next_store     = next_drains && (next_may_store || (following[LAST_WAIT] && next_empty))
      && (following[STORE_WAIT] || following[LAST_WAIT]);
  assign burst          = go_fetch || go_load || go_store;

  always_comb begin
    following             = '0;
    following[IDLE]       = state[IDLE];
    following[PREPARE]    = state[PREPARE] && !(two_tiles && made);
    following[LOAD_WAIT]  = (state[PREPARE] && two_tiles && made) || (state[LOAD_WAIT] && !go_fetch && !go_load)
        || (fetch_end && resumed[0]) || (moves_on && more);
    following[LOAD]       = go_load || (state[LOAD] && !load_end);
    following[STORE_WAIT] = (state[STORE_WAIT] && !go_fetch && !go_store) || (fetch_end && resumed[1])
        || (load_end && shares) || (state[STORE] && stores && chunk_end && !store_end) || (moves_on && to_share);
    following[STORE]      = (state[STORE_WAIT] && go_store) || (state[STORE] && !store_end && !(stores && chunk_end));
    following[LAST_WAIT]  = (state[LAST_WAIT] && !go_fetch && !go_store) || (fetch_end && resumed[2])
        || (state[LAST] && stores && chunk_end && !store_end) || (moves_on && to_last);
    following[LAST]       = (state[LAST_WAIT] && go_store && !empty) || (state[LAST] && !store_end && !(stores && chunk_end));
    following[DONE]       = state[DONE] || (state[LAST_WAIT] && go_store && empty) || (state[LAST] && store_end);
    following[FETCH]      = go_fetch || (state[FETCH] && !fetch_end);
    if (start) following = STATES'(1 << PREPARE);
    if (rst) following = STATES'(1 << IDLE);
  end

  always_ff @(posedge clk) begin
    state       <= following;
    go_load     <= next_load;
    go_fetch    <= next_fetch;
    go_store    <= next_store;
    moved       <= moves_on;
    one_share   <= job.share == 1;
    turns       <= begun && step + 1 == job.steps;  // i stays for two cycles at least
    empty_after <= empties[stored_after[1:0]];
    may_store   <= next_may_store;
    for (int h = 0; h < 2; h++) into_half[h] <= next_load && load_half == h[0];
    for (int n = 0; n < 4; n++) into_pass[n] <= next_load && loading_pass[1:0] == n[1:0];
    if (into_half[0]) by_half_0 <= tile;
    if (into_half[1]) by_half_1 <= tile;
    if (into_pass[0]) pass_0 <= tile;
    if (into_pass[1]) pass_1 <= tile;
    if (into_pass[2]) pass_2 <= tile;
    if (into_pass[3]) pass_3 <= tile;
    if (state[STORE] || (state[LOAD] && !shares)) storing <= next_storing;
    if (go_fetch) resumed <= {state[LAST_WAIT], state[STORE_WAIT], state[LOAD_WAIT]};
    if (start) begin
      more         <= 1'b1;
      begun        <= 1'b0;
      at_end       <= 1'b0;
      has_before   <= 1'b0;
      load_half    <= 1'b0;
      store_open   <= 1'b0;
      step         <= 0;
      step_0       <= 1'b1;
      loading_pass <= 0;
      drained      <= 0;
      occupied     <= '0;
      stored_pass  <= -ONE;
      fetch_open   <= 1'b0;
      none_ahead   <= 1'b1;
      chunk_end    <= 1'b0;
      may_store    <= !adds;
      {ahead, there} <= '0;
    end else begin
      occupied <= occupied + {1'b0, go_load} - {1'b0, tile_done};
      drained  <= next_drained;
      if (go_load) begin
        more      <= !tile.final_;
        empties[loading_pass[1:0]] <= tile.stored == 0;
        load_half <= !load_half;
        if (tile.last) loading_pass <= loading_pass + ONE;
      end
      if (go_fetch) fetch_open <= 1'b1;
      if (fetch_take) begin
        ahead      <= ahead + 1'b1;
        none_ahead <= 1'b0;
        chunk_end  <= none_ahead;
        fetch_left <= fetch_left - 1;
        chunk_full <= fetch_left == 2 || ahead == (AHEAD_BITS + 1)'((1 << AHEAD_BITS) - 2);
        if (fetch_last) fetch_open <= 1'b0;
      end
      if (stores && adds) begin
        ahead      <= ahead - 1'b1;
        none_ahead <= chunk_end;
        chunk_end  <= ahead == 2;
      end
      there <= there + (AHEAD_BITS + 1)'(comes) - (AHEAD_BITS + 1)'(stores && adds);
      if (go_store) store_open <= 1'b1;
      if (stores) begin
        beats_left <= beats_left - 1;
        share_end  <= beats_left == 2;
        if (store_last) store_open <= 1'b0;
      end
      if (moves_on) begin
        begun       <= 1'b1;
        has_before  <= next_has_before;
        step        <= next_0 ? 0 : step + 1;
        step_0      <= next_0;
        empty       <= empties[next_stored];
        stored_pass <= to_last ? stored_last : next_pass;
        at_end      <= !more && begun;
      end
      if (moved) begin  // before its beats, which begin a cycle later at least
        beats_left <= job.share;
        share_end  <= one_share;
        fetch_left <= state[LAST_WAIT] ? '1 : job.share;
        chunk_full <= one_share && !state[LAST_WAIT];
      end
    end
    if (rst) begin
      drained  <= 0;
      occupied <= '0;
    end
  end

  tiles position (
      .clk,
      .rst,
      .start,
      .next(go_load),
      .job,
      .comes(tile_comes),
      .ready(two_tiles),
      .tile
  );

  load_beats loader (
      .clk,
      .begins (start),
      .made,
      .start  (go_load),
      .take   (load_take),
      .job,
      .tile,
      .half   (!load_half),
      .address(load_address),
      .beat   (loader_beat),
      .on_map
  );

  store_beats storer (
      .clk,
      .start   (go_store && !store_open),
      .take    (stores),
      .job,
      .tile    (storing),
      .distance('0),
      .half    (stored_pass[0]),
      .address (store_address),
      .beat    (store_beat),
      .last    (store_last)
  );

  // verilator lint_off PINCONNECTEMPTY
  store_beats fetcher (
      .clk,
      .start   (go_fetch && !fetch_open),
      .take    (fetch_take),
      .job,
      .tile    (storing),
      .distance(job.distance),
      .half    (1'b0),
      .address (fetch_address),
      .beat    (),
      .last    (fetch_last)
  );
  // verilator lint_on PINCONNECTEMPTY

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  localparam logic [1:0] HALVES = 2;
  localparam logic signed [PASS_BITS-1:0] HELD = 3;  // passes that are loaded, computed or stored at once
  logic waits, was_burst, was_valid, was_held, was_write;
  engine_pkg::number_t was_address, was_count;
  logic signed [PASS_BITS-1:0] under_way;
  engine_pkg::tile_t of_pass;
  assign under_way = loading_pass - stored_pass;
  assign of_pass   = stored_pass[1] ? (stored_pass[0] ? pass_3 : pass_2) : (stored_pass[0] ? pass_1 : pass_0);

  always @(posedge clk) begin
    waits       <= valid && !ready && !start && !rst;
    was_burst   <= burst;
    was_valid   <= valid;
    was_held    <= ((state[LOAD] || state[FETCH]) && hold) || (write && !may_store);
    was_write   <= write;
    was_address <= address;
    was_count   <= count;
    if (start && !rst) assert (state[IDLE] || done) else $fatal(1, "start before the last job is done");
    if (!start && !rst && !state[IDLE]) begin
      assert (!waits || (valid && write == was_write && address == was_address && count == was_count))
        else $fatal(1, "a beat changes before it is accepted");
      assert (!valid || (count != 0 && count <= engine_pkg::W)) else $fatal(1, "a beat has 1 to W words");
      assert (!valid || was_valid || was_held || was_burst) else $fatal(1, "a beat without its burst");
      assert (!burst || !valid) else $fatal(1, "a burst begins within another");
      assert (!go_load || occupied < HALVES) else $fatal(1, "a tile loads into a half that is taken");
      assert (!tile_done || occupied != 0) else $fatal(1, "more tiles are computed than loaded");
      assert (!go_load || (under_way >= ONE && under_way <= HELD)) else $fatal(1, "a pass is overwritten before its store");
      assert (!go_store || store_open || storing == of_pass) else $fatal(1, "the store of another pass");
      assert (!pass_drained || drained != loading_pass) else $fatal(1, "a pass drains before it is loaded");
      assert (there <= ahead && ahead <= (AHEAD_BITS + 1)'(1 << AHEAD_BITS)) else $fatal(1, "residual words that nothing holds");
      assert (!comes || there < ahead) else $fatal(1, "residual words that no beat asked for");
      assert (!stores || !adds || there != 0) else $fatal(1, "a store before its residual words");
      assert (none_ahead == (ahead == 0) && chunk_end == (ahead == 1)) else $fatal(1, "a count of residual words");
      assert (done || may_store == (!adds || there != 0)) else $fatal(1, "a count of residual words");
      assert (!go_fetch || storing == of_pass || fetch_open) else $fatal(1, "the residual map of another pass");
      assert (!done || !adds || ahead == 0) else $fatal(1, "residual words are left");
    end
  end
`endif

endmodule

`default_nettype wire
