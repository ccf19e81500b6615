// Reads of the NPU on AXI4: beats of W words at any word address become bursts of aligned beats.
//
// A line is an aligned beat of the bus.  The NPU's beat lies in one line or in two; the line that the beat before it
// ended in is not fetched again.  Lines that follow one another become one burst, while a new one comes in each cycle.

`default_nettype none

module axi_read #(
    parameter int W = 2,  // words of a beat: a power of two, 2 to 64
    parameter int WORD_BITS = 16,
    parameter int NUMBER_BITS = 32,  // of a word's address
    parameter int FLIGHT_BITS = 7,  // of the beats that the NPU has in flight at most
    parameter int BURST_BITS = 4,  // bursts of up to 16 beats, as an AXI3 port has them, too
    parameter int ADDRESS_BITS = 32  // of a byte's address
) (
    input  wire                     clk,
    input  wire                     rst,     // the bus is reset as well
    input  wire [ADDRESS_BITS-1:0]  base,    // of word 0, a multiple of 4,096
    input  wire                     forget,  // between layers: what was fetched may be written

    // the NPU's requests, and their words in order
    input  wire                     valid,
    input  wire [ NUMBER_BITS-1:0]  address,
    input  wire [      $clog2(W):0] count,
    output logic                    ready,
    output logic                    read_valid,
    output logic [W*WORD_BITS-1:0]  read_words,
    output logic                    error,   // in one cycle: the memory answers with an error

    output logic [ADDRESS_BITS-1:0] araddr,
    output logic [             7:0] arlen,
    output logic                    arvalid,
    input  wire                     arready,
    input  wire  [ W*WORD_BITS-1:0] rdata,
    // verilator lint_off UNUSEDSIGNAL
    input  wire  [             1:0] rresp,
    input  wire                     rlast,
    // verilator lint_on UNUSEDSIGNAL
    input  wire                     rvalid,
    output logic                    rready
);

  localparam int PLACE_BITS = $clog2(W);
  localparam int LINE_BITS = NUMBER_BITS - PLACE_BITS;
  localparam int BYTE_BITS = $clog2(W * WORD_BITS / 8);
  localparam int PAGE_BITS = 12 - BYTE_BITS;  // no burst crosses 4 KB
  localparam int BURST = 1 << BURST_BITS;

  // Requests wait here, so that `ready` depends on nothing but their number.
  logic take, no_request, requests_full, crosses;
  logic [LINE_BITS-1:0] line;
  logic [PLACE_BITS-1:0] place;
  logic request_crosses;

  assign ready           = !requests_full;
  assign request_crosses = {1'b0, address[PLACE_BITS-1:0]} + count > (PLACE_BITS + 1)'(W);

  axi_fifo #(
      .WIDTH     (NUMBER_BITS + 1),
      .DEPTH_BITS(2)
  ) requests (
      .clk,
      .rst,
      .push (valid && ready),
      .last ({request_crosses, address}),
      .pop  (take),
      .first({crosses, line, place}),
      .empty(no_request),
      .full (requests_full)
  );

  // Which lines a request fetches; a line in each cycle.
  logic known, second, reuses, wants, joins, goes, both;
  logic [LINE_BITS-1:0] newest, target;
  // the burst that grows, and those that are whole
  logic growing, bursts_full, ends_burst, plans_full;
  logic [LINE_BITS-1:0] start, next;
  logic [BURST_BITS-1:0] more;  // lines after the first

  assign reuses        = known && newest == line;
  assign both          = crosses && !reuses;
  assign wants         = crosses || !reuses;
  assign target        = line + LINE_BITS'(second || reuses);
  assign joins       = growing && target == next && target[PAGE_BITS-1:0] != '0 && more != BURST_BITS'(BURST - 1);
  assign goes          = !no_request && (second || !plans_full) && (!wants || !growing || joins || !bursts_full);
  assign take          = goes && (second || !both);
  assign ends_burst    = growing && !bursts_full && !(goes && wants && joins);

  always_ff @(posedge clk) begin
    if (goes) second <= !second && both;
    if (goes && !(both && !second)) begin
      newest <= line + LINE_BITS'(crosses);
      known  <= 1'b1;
    end
    if (goes && wants) begin
      growing <= 1'b1;
      next    <= target + 1'b1;
      more    <= joins ? more + 1'b1 : '0;
      if (!joins) start <= target;
    end else if (ends_burst) growing <= 1'b0;
    if (forget) known <= 1'b0;
    if (rst) {known, second, growing} <= '0;
  end

  axi_bursts #(
      .LINE_BITS   (LINE_BITS),
      .BYTE_BITS   (BYTE_BITS),
      .BURST_BITS  (BURST_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) bursts (
      .clk,
      .rst,
      .base,
      .push   (ends_burst),
      .start,
      .more,
      .full   (bursts_full),
      .address(araddr),
      .length (arlen),
      .valid  (arvalid),
      .ready  (arready)
  );


  // How each request is made of the lines that come: of the one before, of one that comes, or of both.
  logic no_plan, fetches_low, fetches_high, gives, has_low;
  logic [PLACE_BITS-1:0] from;

  axi_fifo #(
      .WIDTH     (PLACE_BITS + 2),
      .DEPTH_BITS(FLIGHT_BITS)
  ) plans (
      .clk,
      .rst,
      .push (goes && !second),
      .last ({!reuses, crosses, place}),
      .pop  (gives),
      .first({fetches_low, fetches_high, from}),
      .empty(no_plan),
      .full (plans_full)
  );

  logic comes, gave;
  logic [W*WORD_BITS-1:0] kept, low, high;
  logic [PLACE_BITS-1:0] gave_from;

  assign rready = !no_plan && (fetches_low || fetches_high);
  assign comes  = rvalid && rready;
  assign gives  = rready ? rvalid && !(fetches_low && fetches_high && !has_low) : !no_plan;
  assign error  = comes && rresp[1];

  always_ff @(posedge clk) begin
    if (comes) begin
      kept    <= rdata;
      has_low <= !gives;
    end
    low        <= (fetches_low && !fetches_high) ? rdata : kept;
    high       <= rdata;
    gave_from  <= from;
    read_words <= (W * WORD_BITS)'({high, low} >> gave_from * WORD_BITS);
    {read_valid, gave} <= {gave, gives};
    if (rst) {read_valid, gave, has_low} <= '0;
  end

`ifndef SYNTHESIS
  always @(posedge clk)
    if (!rst) begin
      assert (!valid || (count != '0 && count <= (PLACE_BITS + 1)'(W))) else $fatal(1, "a beat has 1 to W words");
      assert (!goes || second || !plans_full) else $fatal(1, "more beats are in flight than are planned");
      assert (!arvalid || {1'b0, araddr[11:BYTE_BITS]} + (PAGE_BITS + 1)'(arlen) < (PAGE_BITS + 1)'(1 << PAGE_BITS))
        else $fatal(1, "a burst crosses 4 KB");
      assert (!forget || no_request) else $fatal(1, "reads of a layer that has ended");
    end
`endif

endmodule

`default_nettype wire
