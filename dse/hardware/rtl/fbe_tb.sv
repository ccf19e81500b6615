// Self-checking testbench of the Fluid Batching Engine.
//
// Expects the entries of fbcb.mem (in the working directory), not the
// package's.  Walks every batch size over every layer, then drives all inputs at
// random against a model.  `+entries` prints every entry as it is walked:
// layer, b, k code, code of the blocks, B_R, B_P, passes.

`default_nettype none

module fbe_tb;

  localparam int LAYERS = fbe_pkg::LAYERS;
  localparam int B_MAX = fbe_pkg::B_MAX;
  localparam int K_BITS = fbe_pkg::K_BITS;
  localparam int BLOCK_BITS = fbe_pkg::BLOCK_BITS;
  localparam int BLOCK_WIDTH = fbe_pkg::BLOCK_WIDTH;
  localparam int BATCH_BITS = fbe_pkg::BATCH_BITS;
  localparam int ENTRY_BITS = fbe_pkg::ENTRY_BITS;
  localparam int ADDRESS_BITS = fbe_pkg::ADDRESS_BITS;
  localparam int COUNT_BITS = fbe_pkg::COUNT_BITS;
  localparam int LAYER_BITS = fbe_pkg::LAYER_BITS;
  localparam int ENTRIES = LAYERS * B_MAX;
  localparam int EDGES = 2 + COUNT_BITS;  // from the last strobe to `valid`
  localparam int RANDOM_CYCLES = 5000;

  logic clk = 1'b0, rst = 1'b0;
  logic update = 1'b0, restart = 1'b0, advance = 1'b0, write = 1'b0;
  logic [COUNT_BITS-1:0] b_exit = '0, b_incr = '0;
  logic [ADDRESS_BITS-1:0] write_address = '0;
  logic [ENTRY_BITS-1:0] write_entry = '0;

  wire [COUNT_BITS-1:0] b_act, b_r, b_p, b_last, passes;
  wire [LAYER_BITS-1:0] layer;
  wire [ADDRESS_BITS-1:0] number;
  wire [K_BITS-1:0] k;
  wire [BLOCK_WIDTH-1:0] blocks;
  wire fault, valid;

  fbe engine (
      .clk          (clk),
      .rst          (rst),
      .update       (update),
      .b_exit       (b_exit),
      .b_incr       (b_incr),
      .restart      (restart),
      .advance      (advance),
      .write        (write),
      .write_address(write_address),
      .write_entry  (write_entry),
      .b_act        (b_act),
      .layer        (layer),
      .number       (number),
      .fault        (fault),
      .valid        (valid),
      .k            (k),
      .blocks       (blocks),
      .b_r          (b_r),
      .b_p          (b_p),
      .b_last       (b_last),
      .passes       (passes)
  );

  initial forever #5 clk = !clk;

  // What must come out: the model's state, and its table as it is now.
  logic [ENTRY_BITS-1:0] from_file[ENTRIES];
  logic [ENTRY_BITS-1:0] entries[ENTRIES];
  int model_b, model_layer, quiet;
  bit model_fault;
  int checks = 0, failures = 0;

  // integers of four states, so that an unknown value differs from every expected one
  task automatic check(input string what, input integer found, input integer expected);
    checks++;
    if (found !== expected) begin
      failures++;
      if (failures <= 20) begin
        $display("FAIL %s: expected %0d, found %0d (layer %0d, b %0d)", what, expected, found, model_layer, model_b);
      end
    end
  endtask

  // the smallest number of columns whose grid holds the batch, or Equation (1)
  function automatic int columns_of(input int b, input int rows);
    int columns;
    if (fbe_pkg::EQUATION_1) return b - rows + 1;
    columns = 1;
    while (columns * rows < b) columns++;
    return columns;
  endfunction

  // One clock edge with the inputs as they stand, the model's too; then all outputs compared.
  task automatic tick;
    int b, rows;
    integer entry;
    bit by_sample;
    quiet = (rst || update || restart || advance || write) ? 0 : quiet + 1;
    if (rst) begin
      for (int a = 0; a < ENTRIES; a++) entries[a] = from_file[a];
      model_b = 0;
      model_layer = 0;
      model_fault = 1'b0;
    end else begin
      if (update) begin
        b = model_b - int'(b_exit);
        if (b < 0) model_fault = 1'b1;
        b = (b < 0 ? 0 : b) + int'(b_incr);
        if (b > B_MAX) model_fault = 1'b1;
        model_b = b > B_MAX ? B_MAX : b;
      end
      if (restart) model_layer = 0;
      else if (advance) model_layer = (model_layer + 1) % LAYERS;
      if (write && int'(write_address) < ENTRIES) entries[int'(write_address)] = write_entry;
    end
    @(negedge clk);
    check("B_act", integer'(b_act), model_b);
    check("layer", integer'(layer), model_layer);
    check("fault", integer'(fault), integer'(model_fault));
    check("valid", integer'(valid), integer'(quiet >= EDGES && model_b > 0));
    if (quiet >= EDGES && model_b > 0) begin
      by_sample = fbe_pkg::ONE_BY_ONE[model_layer];
      entry = integer'(entries[model_layer*B_MAX+model_b-1]);
      rows = (entry & ((1 << BATCH_BITS) - 1)) + 1;
      check("number", integer'(number), model_layer * B_MAX + model_b - 1);
      check("k", integer'(k), entry >> (BATCH_BITS + BLOCK_BITS));
      check("blocks", integer'(blocks), (entry >> BATCH_BITS) & ((1 << BLOCK_BITS) - 1));
      check("B_R", integer'(b_r), rows);
      check("B_P", integer'(b_p), by_sample ? 1 : columns_of(model_b, rows));
      check("b_last", integer'(b_last), (model_b - 1) % rows + 1);
      check("passes", integer'(passes), by_sample ? model_b : 1);
    end
    {rst, update, restart, advance, write} = '0;
  endtask

  // Every batch size, all of its samples new, over every layer; the last layer leads back to the first.
  task automatic walk(input bit print);
    rst = 1'b1;
    tick();
    for (int b = 1; b <= B_MAX; b++) begin
      update = 1'b1;
      b_exit = COUNT_BITS'(model_b);
      b_incr = COUNT_BITS'(b);
      tick();
      for (int l = 0; l < LAYERS; l++) begin
        repeat (EDGES) tick();
        if (print) $display("entry %0d %0d %0d %0d %0d %0d %0d", layer, b_act, k, blocks, b_r, b_p, passes);
        advance = 1'b1;
        tick();
      end
    end
  endtask

  function automatic int below(input int bound);
    return int'($urandom & 32'h7fffffff) % bound;
  endfunction

  task automatic random_cycle;
    int target;
    rst = below(64) == 0;
    update = below(4) == 0;
    restart = below(32) == 0;
    advance = below(4) == 0;
    write = below(8) == 0;
    b_exit = COUNT_BITS'($urandom);
    b_incr = COUNT_BITS'($urandom);
    if (below(16) > 0) begin  // mostly within range
      b_exit = COUNT_BITS'(below(model_b + 1));
      b_incr = COUNT_BITS'(below(B_MAX - model_b + int'(b_exit) + 1));
    end
    target = below(ENTRIES);
    write_address = ADDRESS_BITS'(target);
    write_entry = ENTRY_BITS'((((below(3) << BLOCK_BITS) | below(1 << BLOCK_BITS)) << BATCH_BITS) | below(target % B_MAX + 1));
    tick();
  endtask

  initial begin
    $readmemh("fbcb.mem", from_file, 0, ENTRIES - 1);
    walk($test$plusargs("entries") != 0);
    for (int i = 0; i < RANDOM_CYCLES; i++) random_cycle();
    walk(1'b0);
    if (failures > 0) begin
      $display("FAILED: %0d of %0d checks", failures, checks);
      $fatal(1);
    end
    $display("PASSED: %0d checks, %0d layers x %0d batch sizes", checks, LAYERS, B_MAX);
    $finish;
  end

endmodule

`default_nettype wire
