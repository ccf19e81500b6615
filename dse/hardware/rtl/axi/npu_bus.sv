// The NPU between its bridge to AXI4 and its registers; npu_axi.v gives it the names that tools recognise.
//
// Reads of a layer wait until all that the layers before it wrote is in the memory.  After an error of the memory no
// beat is accepted until a reset: the NPU stops where it is.

`default_nettype none

module npu_bus #(
    parameter int ADDRESS_BITS = 32,  // of a byte's address
    parameter int DATA_BITS = engine_pkg::W * engine_pkg::WORD_BITS
) (
    input  wire                              clk,
    input  wire                              aresetn,
    output logic                             interrupt,

    // to the memory
    output logic [         ADDRESS_BITS-1:0] m_awaddr,
    output logic [                      7:0] m_awlen,
    output logic                             m_awvalid,
    input  wire                              m_awready,
    output logic [            DATA_BITS-1:0] m_wdata,
    output logic [          DATA_BITS/8-1:0] m_wstrb,
    output logic                             m_wlast,
    output logic                             m_wvalid,
    input  wire                              m_wready,
    input  wire  [                      1:0] m_bresp,
    input  wire                              m_bvalid,
    output logic                             m_bready,
    output logic [         ADDRESS_BITS-1:0] m_araddr,
    output logic [                      7:0] m_arlen,
    output logic                             m_arvalid,
    input  wire                              m_arready,
    input  wire  [            DATA_BITS-1:0] m_rdata,
    input  wire  [                      1:0] m_rresp,
    input  wire                              m_rlast,
    input  wire                              m_rvalid,
    output logic                             m_rready,

    // registers
    input  wire  [axi_pkg::ADDRESS_BITS-1:0] s_awaddr,
    input  wire                              s_awvalid,
    output logic                             s_awready,
    input  wire  [                     31:0] s_wdata,
    input  wire  [                      3:0] s_wstrb,
    input  wire                              s_wvalid,
    output logic                             s_wready,
    output logic [                      1:0] s_bresp,
    output logic                             s_bvalid,
    input  wire                              s_bready,
    input  wire  [axi_pkg::ADDRESS_BITS-1:0] s_araddr,
    input  wire                              s_arvalid,
    output logic                             s_arready,
    output logic [                     31:0] s_rdata,
    output logic [                      1:0] s_rresp,
    output logic                             s_rvalid,
    input  wire                              s_rready
);

  localparam int PLACE_BITS = $clog2(engine_pkg::W);
  localparam int RESET_BITS = $clog2(engine_pkg::RESET_CYCLES) + 1;

  logic rst = 1'b1;
  always_ff @(posedge clk) rst <= !aresetn;

  // The bus forgets the NPU's beats when it is reset, so the NPU must do so, too, which takes a while.
  logic [RESET_BITS-1:0] resets = '1;  // cycles that are left
  logic npu_rst;
  assign npu_rst = resets != '0;

  logic update, restart, advance, start, reset, entry_write;
  // verilator lint_off UNUSEDSIGNAL
  logic [31:0] b_exit, b_incr, slot, records, entry_address, entry_bits;  // as wide as their registers
  logic [63:0] base;
  // verilator lint_on UNUSEDSIGNAL
  logic [axi_pkg::EVENTS_HELD-1:0] comes;

  // verilator lint_off UNUSEDSIGNAL
  logic burst;
  engine_pkg::number_t count;
  // verilator lint_on UNUSEDSIGNAL
  logic idle, layer_done, at_exit, valid, write, ready, read_valid, read_ready, write_ready;
  logic [fbe_pkg::COUNT_BITS-1:0] b_act;
  logic [fbe_pkg::LAYER_BITS-1:0] layer;
  engine_pkg::fault_t fault;
  engine_pkg::number_t address;
  engine_pkg::beat_t read_words, write_words;

  npu npu (
      .clk,
      .rst          (npu_rst),
      .update,
      .b_exit       (b_exit[fbe_pkg::COUNT_BITS-1:0]),
      .b_incr       (b_incr[fbe_pkg::COUNT_BITS-1:0]),
      .slot         (slot[fbe_pkg::COUNT_BITS-1:0]),
      .restart,
      .advance,
      .start,
      .entry_write,
      .entry_address(entry_address[fbe_pkg::ADDRESS_BITS-1:0]),
      .entry_bits   (entry_bits[fbe_pkg::ENTRY_BITS-1:0]),
      .records,
      .idle,
      .layer_done,
      .at_exit,
      .b_act,
      .layer,
      .fault,
      .burst,
      .valid,
      .write,
      .address,
      .count,
      .ready,
      .read_valid,
      .read_words,
      .write_words
  );

  // Between two layers, what the first one wrote.
  logic between, quiet, stopped, read_error, write_error, reads_fail, writes_fail, drains, works;
  assign stopped = reads_fail || writes_fail;
  assign ready   = !stopped && (write ? write_ready : read_ready && !between);

  always_ff @(posedge clk) begin
    if (rst) resets <= RESET_BITS'(engine_pkg::RESET_CYCLES + 1);
    else if (reset) resets <= RESET_BITS'(1);
    else if (npu_rst) resets <= resets - 1'b1;
    between     <= (between || layer_done) && !(quiet && !layer_done);
    // what was asked for before a reset may still be answered with an error
    drains      <= npu_rst || reset || (drains && !(idle && quiet));
    reads_fail  <= !drains && !reset && (reads_fail || read_error);
    writes_fail <= !drains && !reset && (writes_fail || write_error);
    if (rst) {between, reads_fail, writes_fail} <= '0;
  end

  // Events: the end of what was started; a fault.
  logic faults, was_fault;
  assign faults = fault != engine_pkg::FAULT_NONE || stopped;
  assign comes[axi_pkg::EVENT_DONE]  = works && idle && quiet && !start;
  assign comes[axi_pkg::EVENT_FAULT] = faults && !was_fault;

  always_ff @(posedge clk) begin
    works     <= !npu_rst && (start || (works && !(idle && quiet)));
    was_fault <= faults && !rst;
  end

  axi_read #(
      .W           (engine_pkg::W),
      .WORD_BITS   (engine_pkg::WORD_BITS),
      .NUMBER_BITS (engine_pkg::NUMBER_BITS),
      .FLIGHT_BITS (engine_pkg::FLIGHT_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) reader (
      .clk,
      .rst,
      .base   (base[ADDRESS_BITS-1:0]),
      .forget (layer_done || idle),
      .valid  (valid && !write && !stopped && !between),
      .address,
      .count  (count[PLACE_BITS:0]),
      .ready  (read_ready),
      .read_valid,
      .read_words,
      .error  (read_error),
      .araddr (m_araddr),
      .arlen  (m_arlen),
      .arvalid(m_arvalid),
      .arready(m_arready),
      .rdata  (m_rdata),
      .rresp  (m_rresp),
      .rlast  (m_rlast),
      .rvalid (m_rvalid),
      .rready (m_rready)
  );

  axi_write #(
      .W           (engine_pkg::W),
      .WORD_BITS   (engine_pkg::WORD_BITS),
      .NUMBER_BITS (engine_pkg::NUMBER_BITS),
      .WRITE_DELAY (engine_pkg::WRITE_DELAY),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) writer (
      .clk,
      .rst,
      .base   (base[ADDRESS_BITS-1:0]),
      .valid  (valid && write && !stopped),
      .address,
      .count  (count[PLACE_BITS:0]),
      .ready  (write_ready),
      .write_words,
      .quiet,
      .error  (write_error),
      .awaddr (m_awaddr),
      .awlen  (m_awlen),
      .awvalid(m_awvalid),
      .awready(m_awready),
      .wdata  (m_wdata),
      .wstrb  (m_wstrb),
      .wlast  (m_wlast),
      .wvalid (m_wvalid),
      .wready (m_wready),
      .bresp  (m_bresp),
      .bvalid (m_bvalid),
      .bready (m_bready)
  );

  axi_registers registers (
      .clk,
      .rst,
      .awaddr (s_awaddr),
      .awvalid(s_awvalid),
      .awready(s_awready),
      .wdata  (s_wdata),
      .wstrb  (s_wstrb),
      .wvalid (s_wvalid),
      .wready (s_wready),
      .bresp  (s_bresp),
      .bvalid (s_bvalid),
      .bready (s_bready),
      .araddr (s_araddr),
      .arvalid(s_arvalid),
      .arready(s_arready),
      .rdata  (s_rdata),
      .rresp  (s_rresp),
      .rvalid (s_rvalid),
      .rready (s_rready),
      .update,
      .restart,
      .advance,
      .start,
      .reset,
      .entry_write,
      .b_exit,
      .b_incr,
      .slot,
      .records,
      .base,
      .entry_address,
      .entry_bits,
      .status ({writes_fail, reads_fail, at_exit, idle && quiet && !start}),
      .fault  (32'(fault)),
      .b_act  (32'(b_act)),
      .layer  (32'(layer)),
      .comes,
      .interrupt
  );

endmodule

`default_nettype wire
