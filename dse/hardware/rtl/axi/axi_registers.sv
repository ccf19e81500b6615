// Registers of the NPU on AXI4-Lite (docs/hardware.md), and its interrupt.
//
// A write takes its address and its words in the same cycle, and all four bytes: others are answered with an error.

`default_nettype none

module axi_registers (
    input  wire                              clk,
    input  wire                              rst,

    // verilator lint_off UNUSEDSIGNAL
    input  wire  [axi_pkg::ADDRESS_BITS-1:0] awaddr,  // of a word: the lowest two bits do not count
    // verilator lint_on UNUSEDSIGNAL
    input  wire                              awvalid,
    output logic                             awready,
    input  wire  [                     31:0] wdata,
    input  wire  [                      3:0] wstrb,
    input  wire                              wvalid,
    output logic                             wready,
    output logic [                      1:0] bresp,
    output logic                             bvalid,
    input  wire                              bready,
    // verilator lint_off UNUSEDSIGNAL
    input  wire  [axi_pkg::ADDRESS_BITS-1:0] araddr,
    // verilator lint_on UNUSEDSIGNAL
    input  wire                              arvalid,
    output logic                             arready,
    output logic [                     31:0] rdata,
    output logic [                      1:0] rresp,
    output logic                             rvalid,
    input  wire                              rready,

    // each for one cycle
    output logic                             update,
    output logic                             restart,
    output logic                             advance,
    output logic                             start,
    output logic                             reset,
    output logic                             entry_write,
    // until they are written again
    output logic [                     31:0] b_exit,
    output logic [                     31:0] b_incr,
    output logic [                     31:0] slot,
    output logic [                     31:0] records,
    output logic [                     63:0] base,
    output logic [                     31:0] entry_address,
    output logic [                     31:0] entry_bits,

    input  wire  [ axi_pkg::STATUS_BITS-1:0] status,
    input  wire  [                     31:0] fault,
    input  wire  [                     31:0] b_act,
    input  wire  [                     31:0] layer,
    input  wire  [ axi_pkg::EVENTS_HELD-1:0] comes,  // an event
    output logic                             interrupt
);

  localparam logic [1:0] OKAY = 2'b00, SLAVE_ERROR = 2'b10;

  logic writes, reads, obeys, clears;
  assign awready = awvalid && wvalid && !bvalid;
  assign wready  = awready;
  assign arready = !rvalid;
  assign writes  = awready;
  assign obeys   = writes && wstrb == '1;
  assign clears  = obeys && awaddr[axi_pkg::ADDRESS_BITS-1:2] == axi_pkg::EVENTS[axi_pkg::ADDRESS_BITS-1:2];
  assign reads   = arvalid && arready;

  logic [axi_pkg::EVENTS_HELD-1:0] enable, events;
  assign interrupt = (events & enable) != '0;

  always_ff @(posedge clk) begin
    {update, restart, advance, start, reset, entry_write} <= '0;
    if (obeys) begin
      case ({awaddr[axi_pkg::ADDRESS_BITS-1:2], 2'b00})
        axi_pkg::CONTROL: begin
          update  <= wdata[axi_pkg::STROBE_UPDATE];
          restart <= wdata[axi_pkg::STROBE_RESTART];
          advance <= wdata[axi_pkg::STROBE_ADVANCE];
          start   <= wdata[axi_pkg::STROBE_START];
          reset   <= wdata[axi_pkg::STROBE_RESET];
        end
        axi_pkg::B_EXIT:        b_exit <= wdata;
        axi_pkg::B_INCR:        b_incr <= wdata;
        axi_pkg::SLOT:          slot <= wdata;
        axi_pkg::RECORDS:       records <= wdata;
        axi_pkg::BASE:          base[31:0] <= {wdata[31:12], 12'b0};
        axi_pkg::BASE_HIGH:     base[63:32] <= wdata;
        axi_pkg::ENTRY_ADDRESS: entry_address <= wdata;
        axi_pkg::ENTRY: begin
          entry_write <= 1'b1;
          entry_bits  <= wdata;
        end
        axi_pkg::ENABLE:        enable <= wdata[axi_pkg::EVENTS_HELD-1:0];
        default:                ;
      endcase
    end
    events <= comes | (events & ~(clears ? wdata[axi_pkg::EVENTS_HELD-1:0] : '0));
    if (writes) bresp <= obeys ? OKAY : SLAVE_ERROR;
    bvalid <= writes || (bvalid && !bready);
    if (rst) begin
      {bvalid, enable, events} <= '0;
      {update, restart, advance, start, reset, entry_write} <= '0;
      {b_exit, b_incr, slot, records, base, entry_address} <= '0;
    end
  end

  // the first 32 bits of the digest are its highest
  logic [31:0] digest;
  assign digest = 32'(axi_pkg::IS_DIGEST >> ({5'b0, ~araddr[4:2]} << 5));
  assign rresp  = OKAY;

  always_ff @(posedge clk) begin
    if (reads) begin
      case ({araddr[axi_pkg::ADDRESS_BITS-1:2], 2'b00})
        axi_pkg::ID:            rdata <= axi_pkg::IS_ID;
        axi_pkg::VERSION:       rdata <= axi_pkg::IS_VERSION;
        axi_pkg::STATUS:        rdata <= (fault << axi_pkg::FAULT_SHIFT) | 32'(status);
        axi_pkg::B_EXIT:        rdata <= b_exit;
        axi_pkg::B_INCR:        rdata <= b_incr;
        axi_pkg::SLOT:          rdata <= slot;
        axi_pkg::RECORDS:       rdata <= records;
        axi_pkg::BASE:          rdata <= base[31:0];
        axi_pkg::BASE_HIGH:     rdata <= base[63:32];
        axi_pkg::ENTRY_ADDRESS: rdata <= entry_address;
        axi_pkg::ENABLE:        rdata <= 32'(enable);
        axi_pkg::EVENTS:        rdata <= 32'(events);
        axi_pkg::B_ACT:         rdata <= b_act;
        axi_pkg::LAYER:         rdata <= layer;
        default:                rdata <= (araddr[axi_pkg::ADDRESS_BITS-1:5] == axi_pkg::DIGEST[axi_pkg::ADDRESS_BITS-1:5]) ? digest : '0;
      endcase
    end
    rvalid <= reads || (rvalid && !rready);
    if (rst) rvalid <= 1'b0;
  end

endmodule

`default_nettype wire
