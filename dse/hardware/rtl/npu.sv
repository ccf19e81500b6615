// The NPU: the Fluid Batching Engine decides how each layer runs, the engine runs it.
//
// A layer begins by reading its record, which memory holds for each layer and batch size (engine_pkg::job_t without its
// first words).  The record says nothing about the layout: k, B_R, B_P and the passes come from the control block, and
// all words of the job that depend on them alone are computed here.  What else depends on the layout are quotients of
// sizes; the record names the entry that they were computed for, and a record of another entry does not run.

`default_nettype none

module npu (
    input  wire                              clk,
    // Synchronous, active high; loads the control block.  `idle` rises once the memory has answered every beat, or when
    // it lasts for RESET_CYCLES, as with a memory that is reset as well.
    input  wire                              rst,

    // The scheduler, while `idle`: the Fluid Batching Engine's strobes, then `start`, in the same cycle or later.
    input  wire                              update,
    input  wire  [  fbe_pkg::COUNT_BITS-1:0] b_exit,
    input  wire  [  fbe_pkg::COUNT_BITS-1:0] b_incr,
    input  wire  [  fbe_pkg::COUNT_BITS-1:0] slot,  // with `update`: the batch's first sample has this place in each map
    input  wire                              restart,
    input  wire                              advance,
    input  wire                              start,  // runs this layer and those after it, up to one that ends in a stop
    input  wire                              entry_write,
    input  wire  [fbe_pkg::ADDRESS_BITS-1:0] entry_address,
    input  wire  [  fbe_pkg::ENTRY_BITS-1:0] entry_bits,
    input  wire  engine_pkg::number_t        records,  // address of the first record, in words

    output logic                             idle,
    output logic                             layer_done,  // in one cycle, while `layer` and `b_act` are those that ran
    output logic                             at_exit,  // the last layer was the last one before an exit
    output logic [  fbe_pkg::COUNT_BITS-1:0] b_act,
    output logic [  fbe_pkg::LAYER_BITS-1:0] layer,
    output       engine_pkg::fault_t         fault,  // the first since reset, engine_pkg::FAULT_...; what caused it did not run

    // the memory, as engine.sv describes it
    output logic                             burst,
    output logic                             valid,
    output logic                             write,
    output       engine_pkg::number_t        address,
    output       engine_pkg::number_t        count,
    input  wire                              ready,
    input  wire                              read_valid,
    input  wire  engine_pkg::beat_t          read_words,
    output       engine_pkg::beat_t          write_words
);

  localparam int WORD = engine_pkg::WORD_BITS;
  localparam int NUMBER = engine_pkg::NUMBER_BITS;
  localparam int COUNT_BITS = fbe_pkg::COUNT_BITS;
  localparam int CODE_BITS = engine_pkg::CODE_BITS;
  localparam int BLOCKS_BITS = engine_pkg::BLOCKS_BITS;
  localparam int ROWS_BITS = engine_pkg::ROWS_BITS;
  localparam int W = engine_pkg::W;
  localparam int LAYOUT = NUMBER * engine_pkg::LAYOUT_WORDS;
  localparam int KEPT = NUMBER * engine_pkg::JOB_WORDS - LAYOUT;  // bits that go into the job as they are
  localparam int LEAST = engine_pkg::RECORD_WORDS * NUMBER / WORD;
  localparam int RECORD = (W > LEAST) ? W : LEAST;  // words
  localparam int BEATS = RECORD / W;
  localparam int BEAT_BITS = $clog2(BEATS + 1);
  localparam int STEP_BITS = $clog2(COUNT_BITS + 1);

  localparam int STATE_BITS = 3;
  localparam logic [STATE_BITS-1:0] IDLE = 0, LOOK_UP = 1, ASK = 2, FETCH = 3, MULTIPLY = 4, START = 5, RUN = 6, DRAIN = 7;
  localparam int FLIGHT_BITS = engine_pkg::FLIGHT_BITS;
  localparam int RESET_BITS = $clog2(engine_pkg::RESET_CYCLES);

  logic [STATE_BITS-1:0] state;
  logic [BEAT_BITS-1:0] asked, come;
  logic [STEP_BITS-1:0] step;
  logic engine_done, fits, goes_on;

  // Strobes are obeyed while idle only; a batch needs a sample, and places for all of them in the maps.
  logic strobes, updates, out_of_range, empty, beyond;
  assign strobes = update || restart || advance || start || entry_write;
  assign updates = update && idle;
  assign empty   = state == LOOK_UP && b_act == '0;
  assign beyond  = state == LOOK_UP && {1'b0, first} + {1'b0, b_act} > (COUNT_BITS + 1)'(fbe_pkg::B_MAX);

  // Beats that the memory has not answered, which a reset does not forget, and how long a reset lasts.
  logic [FLIGHT_BITS:0] unanswered = '0;
  logic [RESET_BITS-1:0] lasts = '0;
  logic answers, unasked;
  assign answers = read_valid && unanswered != '0;
  assign unasked = read_valid && !answers;

  always_ff @(posedge clk) begin
    lasts <= rst ? lasts + 1'b1 : '0;
    if (rst && lasts == RESET_BITS'(engine_pkg::RESET_CYCLES - 1)) unanswered <= '0;
    else unanswered <= unanswered + (FLIGHT_BITS + 1)'(valid && ready && !write) - (FLIGHT_BITS + 1)'(answers);
  end

  // How to run the layer.
  logic found;
  logic [fbe_pkg::K_BITS-1:0] k;
  logic [fbe_pkg::BLOCK_WIDTH-1:0] blocks;
  logic [fbe_pkg::ADDRESS_BITS-1:0] number;
  logic [COUNT_BITS-1:0] b_r, b_p, b_last, passes, first;

  fbe fluid_batching (
      .clk,
      .rst,
      .update       (updates),
      .b_exit,
      .b_incr,
      .restart      (restart && idle),
      .advance      ((advance && idle) || goes_on),
      .write        (entry_write && idle),
      .write_address(entry_address),
      .write_entry  (entry_bits),
      .b_act,
      .layer,
      .number,
      .fault        (out_of_range),
      .valid        (found),
      .k,
      .blocks,
      .b_r,
      .b_p,
      .b_last,
      .passes
  );

  // Its record has the number of its entry.
  logic [WORD*RECORD-1:0] record;
  engine_pkg::number_t ends, entry, x_map, y_map;
  // verilator lint_off UNUSEDSIGNAL
  engine_pkg::job_t of, job;  // what it holds of the job; the job
  // verilator lint_on UNUSEDSIGNAL

  assign {ends, entry, x_map, y_map} = record[KEPT+:4*NUMBER];
  assign of   = {LAYOUT'(0), record[KEPT-1:0]};
  assign fits = entry == {CODE_BITS'(k), BLOCKS_BITS'(blocks), ROWS_BITS'(b_r)};

  always_ff @(posedge clk) if (state == FETCH && answers) record <= (WORD * RECORD)'({read_words, record} >> WORD * W);

  // Words of the layer times samples, all at once, a bit of the counts in each cycle.
  localparam int PRODUCTS = 7;
  logic [PRODUCTS*NUMBER-1:0] words, products;
  logic [PRODUCTS*COUNT_BITS-1:0] counts;

  assign words  = {of.y_sample, of.x_sample, of.y_sample, of.x_sample, of.R, of.R, of.C};
  assign counts = {first, first, b_r, b_r, b_last, b_r, b_p};

  for (genvar i = 0; i < PRODUCTS; i++) begin : gen_product
    logic [COUNT_BITS-1:0] left;
    always_ff @(posedge clk) begin
      if (state == FETCH) begin
        left <= counts[i*COUNT_BITS+:COUNT_BITS];
        products[i*NUMBER+:NUMBER] <= '0;
      end else if (state == MULTIPLY) begin
        left <= left << 1;
        products[i*NUMBER+:NUMBER] <= (products[i*NUMBER+:NUMBER] << 1) + (left[COUNT_BITS-1] ? words[i*NUMBER+:NUMBER] : '0);
      end
    end
  end

  // The job: the layout's words, then the record's.
  engine_pkg::number_t columns, down, filled, x_column, y_column, x_first, y_first, code, T_P, T_C, slot_rows;

  assign {y_first, x_first, y_column, x_column, filled, down, columns} = products;
  assign job = {
    {code, T_P, T_C, NUMBER'(passes), NUMBER'(b_p)},
    {columns, down, filled, x_map + x_first, y_map + y_first, x_column, y_column, of.x_sample, of.y_sample},
    {slot_rows, record[KEPT-1:0]}
  };

  // While samples are counted, so that no path through the engine begins with a choice by k.
  always_ff @(posedge clk) begin
    code      <= NUMBER'(k);
    T_P       <= (k == engine_pkg::K_2) ? 2 * engine_pkg::T_P : (k == engine_pkg::K_HALF) ? engine_pkg::T_P / 2 : engine_pkg::T_P;
    T_C       <= (k == engine_pkg::K_2) ? engine_pkg::T_C / 2 : (k == engine_pkg::K_HALF) ? 2 * engine_pkg::T_C : engine_pkg::T_C;
    slot_rows <= NUMBER'(engine_pkg::V) * ((of.rows + NUMBER'(engine_pkg::V - 1)) / NUMBER'(engine_pkg::V) | 1);
  end

  assign layer_done = state == RUN && engine_done;
  assign goes_on    = layer_done && ends == engine_pkg::END_NEXT;
  assign idle       = state == IDLE;

  always_ff @(posedge clk) begin
    if (updates) first <= slot;
    if (layer_done) at_exit <= ends == engine_pkg::END_EXIT;
    case (state)
      LOOK_UP:
      if (empty || beyond) state <= IDLE;
      else if (found) state <= ASK;
      ASK: begin
        state <= FETCH;
        asked <= '0;
        come  <= '0;
        step  <= '0;
      end
      FETCH: begin
        if (valid && ready) asked <= asked + 1'b1;
        if (answers) come <= come + 1'b1;
        if (answers && come == BEAT_BITS'(BEATS - 1)) state <= MULTIPLY;
      end
      MULTIPLY: begin
        step <= step + 1'b1;
        if (!fits) state <= IDLE;
        else if (step == STEP_BITS'(COUNT_BITS - 1)) state <= START;
      end
      START: state <= RUN;
      RUN: if (engine_done) state <= goes_on ? LOOK_UP : IDLE;
      DRAIN: if (unanswered == '0) state <= IDLE;
      default: if (start) state <= LOOK_UP;
    endcase
    if (fault == engine_pkg::FAULT_NONE) begin
      if (out_of_range) fault <= engine_pkg::FAULT_UPDATE;
      else if (state == MULTIPLY && !fits) fault <= engine_pkg::FAULT_STALE;
      else if (empty) fault <= engine_pkg::FAULT_EMPTY;
      else if (beyond) fault <= engine_pkg::FAULT_PLACES;
      else if (strobes && !idle) fault <= engine_pkg::FAULT_BUSY;
      else if (unasked) fault <= engine_pkg::FAULT_UNASKED;
    end
    if (rst) begin
      state   <= DRAIN;
      first   <= '0;
      at_exit <= 1'b0;
      fault   <= engine_pkg::FAULT_NONE;
    end
  end

  logic engine_burst, engine_valid, engine_write;
  engine_pkg::number_t engine_address, engine_count;

  engine array (
      .clk,
      .rst,
      .start     (state == START),
      .job,
      .done      (engine_done),
      .burst     (engine_burst),
      .valid     (engine_valid),
      .write     (engine_write),
      .address   (engine_address),
      .count     (engine_count),
      .ready,
      .read_valid(answers && state == RUN),
      .read_words,
      .write_words
  );

  // One port: the record's beats, or the engine's.
  logic fetches;
  assign fetches      = state == FETCH;
  assign burst        = state == ASK || engine_burst;
  assign valid        = fetches ? asked != BEAT_BITS'(BEATS) : engine_valid;
  assign write        = !fetches && engine_write;
  assign address      = fetches ? records + NUMBER'(number) * RECORD + NUMBER'(asked) * W : engine_address;
  assign count        = fetches ? W : engine_count;

`ifndef SYNTHESIS
  // What the modules around it promise, and what it promises to them.
  logic waits, was_write;
  engine_pkg::number_t was_address, was_count;
  logic [COUNT_BITS-1:0] was_b_act;
  logic [fbe_pkg::LAYER_BITS-1:0] was_layer;
  logic was_running;

  always @(posedge clk) begin
    waits       <= valid && !ready && !rst;
    was_write   <= write;
    was_address <= address;
    was_count   <= count;
    was_running <= state != IDLE && !layer_done && !rst;
    was_b_act   <= b_act;
    was_layer   <= layer;
    if (!rst) begin
      assert (state != ASK || b_act != '0) else $fatal(1, "a layer runs without samples");
      assert (state != ASK || int'(first) + int'(b_act) <= fbe_pkg::B_MAX) else $fatal(1, "places beyond the maps");
      assert (unanswered <= (FLIGHT_BITS + 1)'(1 << FLIGHT_BITS)) else $fatal(1, "more beats are in flight than are counted");
      assert (state == RUN || state == FETCH || state == DRAIN || unanswered == '0)
        else $fatal(1, "words of an earlier run may come");
      assert (!waits || (valid && write == was_write && address == was_address && count == was_count))
        else $fatal(1, "a beat changes before it is accepted");
      assert (!answers || state == RUN || state == DRAIN || (fetches && come < asked))
        else $fatal(1, "words that nothing takes");
      assert (!was_running || state == IDLE || (b_act == was_b_act && layer == was_layer))
        else $fatal(1, "the batch changes while a layer runs");
    end
  end
`endif

endmodule

`default_nettype wire
