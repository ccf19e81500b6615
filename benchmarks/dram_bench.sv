// The NPU on a board with LiteDRAM as its memory: one clock; the host has a port of the memory of its own.

`default_nettype none

module dram_bench #(
    parameter int DATA_BITS = engine_pkg::W * engine_pkg::WORD_BITS
) (
    input  wire                    clk,
    input  wire                    aresetn,
    output logic                   done,        // the interrupt

    // registers of the NPU
    input  wire  [           11:0] s_axi_awaddr,
    input  wire                    s_axi_awvalid,
    output logic                   s_axi_awready,
    input  wire  [           31:0] s_axi_wdata,
    input  wire                    s_axi_wvalid,
    output logic                   s_axi_bvalid,
    input  wire  [           11:0] s_axi_araddr,
    input  wire                    s_axi_arvalid,
    output logic [           31:0] s_axi_rdata,
    output logic                   s_axi_rvalid,

    // registers of the controller
    input  wire  [           29:0] wb_ctrl_adr,
    input  wire  [           31:0] wb_ctrl_dat_w,
    input  wire                    wb_ctrl_stb,
    input  wire                    wb_ctrl_we,
    output logic [           31:0] wb_ctrl_dat_r,
    output logic                   wb_ctrl_ack,

    // the memory, in beats of the NPU
    input  wire                    host_cmd_valid,
    input  wire                    host_cmd_we,
    input  wire  [           31:0] host_cmd_addr,
    output logic                   host_cmd_ready,
    input  wire                    host_wdata_valid,
    input  wire  [DATA_BITS/8-1:0] host_wdata_we,
    input  wire  [  DATA_BITS-1:0] host_wdata_data,
    output logic                   host_wdata_ready,
    output logic                   host_rdata_valid,
    output logic [  DATA_BITS-1:0] host_rdata_data,

    // what is counted
    output logic                   start,
    output logic                   burst,       // as npu.sv has it
    output logic                   layer_done,
    output logic [           31:0] layer,
    output logic [           31:0] b_act,
    output logic                   loads,       // a beat of the NPU, at any address
    output logic                   stores,
    output logic                   loaded,      // an aligned beat of the bus
    output logic                   stored
);

  wire [31:0] awaddr, araddr;
  wire [7:0] awlen, arlen;
  wire [2:0] awsize, arsize;
  wire [1:0] awburst, arburst, bresp, rresp;
  wire [DATA_BITS-1:0] wdata, rdata;
  wire [DATA_BITS/8-1:0] wstrb;
  wire awid, awvalid, awready, wlast, wvalid, wready, bid, bvalid, bready;
  wire arid, arvalid, arready, rid, rlast, rvalid, rready;

  npu_axi npu_axi (
      .aclk(clk),
      .aresetn,
      .interrupt(done),
      .m_axi_awid(awid),
      .m_axi_awaddr(awaddr),
      .m_axi_awlen(awlen),
      .m_axi_awsize(awsize),
      .m_axi_awburst(awburst),
      .m_axi_awvalid(awvalid),
      .m_axi_awready(awready),
      .m_axi_wdata(wdata),
      .m_axi_wstrb(wstrb),
      .m_axi_wlast(wlast),
      .m_axi_wvalid(wvalid),
      .m_axi_wready(wready),
      .m_axi_bid(bid),
      .m_axi_bresp(bresp),
      .m_axi_bvalid(bvalid),
      .m_axi_bready(bready),
      .m_axi_arid(arid),
      .m_axi_araddr(araddr),
      .m_axi_arlen(arlen),
      .m_axi_arsize(arsize),
      .m_axi_arburst(arburst),
      .m_axi_arvalid(arvalid),
      .m_axi_arready(arready),
      .m_axi_rid(rid),
      .m_axi_rdata(rdata),
      .m_axi_rresp(rresp),
      .m_axi_rlast(rlast),
      .m_axi_rvalid(rvalid),
      .m_axi_rready(rready),
      .s_axi_awaddr,
      .s_axi_awprot(3'b0),
      .s_axi_awvalid,
      .s_axi_awready,
      .s_axi_wdata,
      .s_axi_wstrb(4'hF),
      .s_axi_wvalid,
      .s_axi_bvalid,
      .s_axi_bready(1'b1),
      .s_axi_araddr,
      .s_axi_arprot(3'b0),
      .s_axi_arvalid,
      .s_axi_rdata,
      .s_axi_rvalid,
      .s_axi_rready(1'b1)
  );

  litedram litedram (
      .clk,
      .sim_trace(1'b0),
      .wb_ctrl_adr,
      .wb_ctrl_dat_w,
      .wb_ctrl_sel(4'hF),
      .wb_ctrl_cyc(wb_ctrl_stb),
      .wb_ctrl_stb,
      .wb_ctrl_we,
      .wb_ctrl_cti(3'b0),
      .wb_ctrl_bte(2'b0),
      .wb_ctrl_dat_r,
      .wb_ctrl_ack,
      .user_port_host_cmd_valid(host_cmd_valid),
      .user_port_host_cmd_we(host_cmd_we),
      .user_port_host_cmd_addr(host_cmd_addr),
      .user_port_host_cmd_ready(host_cmd_ready),
      .user_port_host_wdata_valid(host_wdata_valid),
      .user_port_host_wdata_we(host_wdata_we),
      .user_port_host_wdata_data(host_wdata_data),
      .user_port_host_wdata_ready(host_wdata_ready),
      .user_port_host_rdata_valid(host_rdata_valid),
      .user_port_host_rdata_data(host_rdata_data),
      .user_port_host_rdata_ready(1'b1),
      .user_port_npu_awid(awid),
      .user_port_npu_awaddr(awaddr),
      .user_port_npu_awlen(awlen),
      .user_port_npu_awsize({1'b0, awsize}),
      .user_port_npu_awburst(awburst),
      .user_port_npu_awvalid(awvalid),
      .user_port_npu_awready(awready),
      .user_port_npu_wdata(wdata),
      .user_port_npu_wstrb(wstrb),
      .user_port_npu_wlast(wlast),
      .user_port_npu_wvalid(wvalid),
      .user_port_npu_wready(wready),
      .user_port_npu_bid(bid),
      .user_port_npu_bresp(bresp),
      .user_port_npu_bvalid(bvalid),
      .user_port_npu_bready(bready),
      .user_port_npu_arid(arid),
      .user_port_npu_araddr(araddr),
      .user_port_npu_arlen(arlen),
      .user_port_npu_arsize({1'b0, arsize}),
      .user_port_npu_arburst(arburst),
      .user_port_npu_arvalid(arvalid),
      .user_port_npu_arready(arready),
      .user_port_npu_rid(rid),
      .user_port_npu_rdata(rdata),
      .user_port_npu_rresp(rresp),
      .user_port_npu_rlast(rlast),
      .user_port_npu_rvalid(rvalid),
      .user_port_npu_rready(rready)
  );

  assign start      = npu_axi.npu_bus.start;
  assign burst      = npu_axi.npu_bus.burst;
  assign layer_done = npu_axi.npu_bus.layer_done;
  assign layer      = 32'(npu_axi.npu_bus.layer);
  assign b_act      = 32'(npu_axi.npu_bus.b_act);
  assign loads      = npu_axi.npu_bus.valid && npu_axi.npu_bus.ready && !npu_axi.npu_bus.write;
  assign stores     = npu_axi.npu_bus.valid && npu_axi.npu_bus.ready && npu_axi.npu_bus.write;
  assign loaded     = rvalid && rready;
  assign stored     = wvalid && wready;

endmodule

`default_nettype wire
