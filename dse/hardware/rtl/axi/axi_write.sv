// Writes of the NPU on AXI4: up to W words at any word address become bursts of aligned beats with strobes.
//
// A line is an aligned beat of the bus.  What follows in the line that the beat before it ended in is written with it.
// A burst is sent once it is whole, so that its words follow one another.

`default_nettype none

module axi_write #(
    parameter int W = 2,  // words of a beat: a power of two, 2 to 64
    parameter int WORD_BITS = 16,
    parameter int NUMBER_BITS = 32,  // of a word's address
    parameter int WRITE_DELAY = 4,  // cycles from a beat to its words
    parameter int BURST_BITS = 4,  // bursts of up to 16 beats, as an AXI3 port has them, too
    parameter int ADDRESS_BITS = 32  // of a byte's address
) (
    input  wire                       clk,
    input  wire                       rst,    // the bus is reset as well
    input  wire [   ADDRESS_BITS-1:0] base,   // of word 0, a multiple of 4,096

    // the NPU's requests, and their words later
    input  wire                       valid,
    input  wire [    NUMBER_BITS-1:0] address,
    input  wire [        $clog2(W):0] count,
    output logic                      ready,
    input  wire [    W*WORD_BITS-1:0] write_words,
    output logic                      quiet,  // the memory has answered everything that was written
    output logic                      error,  // in one cycle: with an error

    output logic [  ADDRESS_BITS-1:0] awaddr,
    output logic [               7:0] awlen,
    output logic                      awvalid,
    input  wire                       awready,
    output logic [   W*WORD_BITS-1:0] wdata,
    output logic [ W*WORD_BITS/8-1:0] wstrb,
    output logic                      wlast,
    output logic                      wvalid,
    input  wire                       wready,
    // verilator lint_off UNUSEDSIGNAL
    input  wire  [               1:0] bresp,
    // verilator lint_on UNUSEDSIGNAL
    input  wire                       bvalid,
    output logic                      bready
);

  localparam int PLACE_BITS = $clog2(W);
  localparam int LINE_BITS = NUMBER_BITS - PLACE_BITS;
  localparam int BYTES = WORD_BITS / 8;
  localparam int BYTE_BITS = $clog2(W * BYTES);
  localparam int PAGE_BITS = 12 - BYTE_BITS;  // no burst crosses 4 KB
  localparam int BURST = 1 << BURST_BITS;
  localparam int STORE_BITS = 4;  // of the beats whose words are expected or wait: enough for one in each cycle
  localparam int ANSWER_BITS = 6;  // of the bursts that are not answered
  localparam int REQUEST = NUMBER_BITS + PLACE_BITS + 1;

  // Words come without being asked, so a request is accepted only if there is room for them.
  logic [STORE_BITS:0] expected;
  logic [WRITE_DELAY-1:0] delayed;
  logic [WRITE_DELAY*REQUEST-1:0] requests;
  logic accepts, take, no_words;
  logic [LINE_BITS-1:0] next_line;
  logic [PLACE_BITS-1:0] next_place;
  logic [PLACE_BITS:0] next_count;
  logic [W*WORD_BITS-1:0] next_words;

  assign ready   = !expected[STORE_BITS];
  assign accepts = valid && ready;

  always_ff @(posedge clk) begin
    delayed  <= WRITE_DELAY'({delayed, accepts});
    requests <= (WRITE_DELAY * REQUEST)'({requests, count, address});
    expected <= expected + (STORE_BITS + 1)'(accepts) - (STORE_BITS + 1)'(take);
    if (rst) {delayed, expected} <= '0;
  end

  // verilator lint_off PINCONNECTEMPTY
  axi_fifo #(
      .WIDTH     (REQUEST + W * WORD_BITS),
      .DEPTH_BITS(STORE_BITS)
  ) stores (
      .clk,
      .rst,
      .push (delayed[WRITE_DELAY-1]),
      .last ({requests[(WRITE_DELAY-1)*REQUEST+:REQUEST], write_words}),
      .pop  (take),
      .first({next_count, next_line, next_place, next_words}),
      .empty(no_words),
      .full ()
  );
  // verilator lint_on PINCONNECTEMPTY

  // A store in its place: words that go beyond the line are at the beginning of the next.
  logic placed, second, ends_store, goes;
  logic [LINE_BITS-1:0] line;
  logic [W*WORD_BITS-1:0] words;
  logic [W-1:0] in_line, beyond;
  logic [2*W-1:0] ones;

  assign take = !no_words && (!placed || ends_store);
  assign ones = ((2 * W)'(1) << next_count) - 1'b1;

  always_ff @(posedge clk) begin
    if (take) begin
      line  <= next_line;
      words <= (W * WORD_BITS)'(({next_words, next_words} << next_place * WORD_BITS) >> W * WORD_BITS);
      {beyond, in_line} <= ones << next_place;
    end
    if (take) placed <= 1'b1;
    else if (ends_store) placed <= 1'b0;
    if (goes) second <= !second && beyond != '0;
    if (rst) {placed, second} <= '0;
  end

  // The line that is made up; it is sent when a word of another comes, or none.
  logic made, same, follows, sends, ends_burst, has_room, lines_full, bursts_full;
  logic [LINE_BITS-1:0] made_line, piece_line, start;
  logic [W-1:0] piece, made_piece;
  logic [W*WORD_BITS-1:0] made_words;
  logic [BURST_BITS-1:0] more;  // lines of the burst that were sent
  logic [ANSWER_BITS-1:0] unanswered;

  assign piece         = second ? beyond : in_line;
  assign piece_line    = line + LINE_BITS'(second);
  assign same          = made_line == piece_line;
  assign follows       = placed && piece_line == made_line + 1'b1 && piece_line[PAGE_BITS-1:0] != '0
      && more != BURST_BITS'(BURST - 1);
  assign has_room      = !lines_full && !bursts_full && unanswered != '1;
  assign goes          = placed && (!made || same || has_room);
  assign ends_store    = goes && (second || beyond == '0);
  assign sends         = made && has_room && (placed ? !same : expected == '0);
  assign ends_burst    = sends && !follows;
  assign start         = made_line - LINE_BITS'(more);

  for (genvar i = 0; i < W; i++) begin : gen_word
    always_ff @(posedge clk) if (goes && piece[i]) made_words[i*WORD_BITS+:WORD_BITS] <= words[i*WORD_BITS+:WORD_BITS];
  end

  always_ff @(posedge clk) begin
    if (goes) begin
      made_line  <= piece_line;
      made_piece <= (made && same) ? made_piece | piece : piece;
    end
    if (goes) made <= 1'b1;
    else if (sends) made <= 1'b0;
    if (sends) more <= ends_burst ? '0 : more + 1'b1;
    unanswered <= unanswered + ANSWER_BITS'(ends_burst) - ANSWER_BITS'(bvalid);
    if (rst) {made, more, unanswered} <= '0;
  end

  // Lines wait until their burst is whole.
  logic no_line;
  logic [W-1:0] strobes;
  logic [BURST_BITS+1:0] whole;  // bursts among the lines that wait

  axi_fifo #(
      .WIDTH     (1 + W + W * WORD_BITS),
      .DEPTH_BITS(BURST_BITS + 1)
  ) lines (
      .clk,
      .rst,
      .push (sends),
      .last ({ends_burst, made_piece, made_words}),
      .pop  (wvalid && wready),
      .first({wlast, strobes, wdata}),
      .empty(no_line),
      .full (lines_full)
  );

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
      .address(awaddr),
      .length (awlen),
      .valid  (awvalid),
      .ready  (awready)
  );

  always_ff @(posedge clk) begin
    whole <= whole + (BURST_BITS + 2)'(ends_burst) - (BURST_BITS + 2)'(wvalid && wready && wlast);
    if (rst) whole <= '0;
  end

  for (genvar i = 0; i < W; i++) begin : gen_strobe
    assign wstrb[i*BYTES+:BYTES] = {BYTES{strobes[i]}};
  end

  assign wvalid              = whole != '0;
  assign bready              = 1'b1;
  assign error               = bvalid && bresp[1];
  assign quiet               = expected == '0 && !placed && !made && unanswered == '0;

`ifndef SYNTHESIS
  always @(posedge clk)
    if (!rst) begin
      assert (!accepts || (count != '0 && count <= (PLACE_BITS + 1)'(W))) else $fatal(1, "a beat has 1 to W words");
      assert (!bvalid || unanswered != '0) else $fatal(1, "an answer to no write");
      assert (!wvalid || !no_line) else $fatal(1, "a burst without its words");
      assert (!awvalid || {1'b0, awaddr[11:BYTE_BITS]} + (PAGE_BITS + 1)'(awlen) < (PAGE_BITS + 1)'(1 << PAGE_BITS))
        else $fatal(1, "a burst crosses 4 KB");
    end
`endif

endmodule

`default_nettype wire
