// The bridge alone, with the names of its buses, for axi_bench.py.

module axi_bench #(
    parameter int W = 4
) (
    input  wire           clk, rst, forget, valid, write,
    input  wire [   31:0] base, address, count,
    input  wire [16*W-1:0] write_words,
    output wire           ready, read_valid, quiet,
    output reg            read_error, write_error,
    output wire [16*W-1:0] read_words,

    output wire           m_axi_awid, m_axi_awvalid, m_axi_wlast, m_axi_wvalid, m_axi_bready, m_axi_arid, m_axi_arvalid, m_axi_rready,
    output wire [   31:0] m_axi_awaddr, m_axi_araddr,
    output wire [    7:0] m_axi_awlen, m_axi_arlen,
    output wire [    2:0] m_axi_awsize, m_axi_arsize,
    output wire [    1:0] m_axi_awburst, m_axi_arburst,
    output wire [16*W-1:0] m_axi_wdata,
    output wire [2*W-1:0] m_axi_wstrb,
    input  wire           m_axi_awready, m_axi_wready, m_axi_bid, m_axi_bvalid, m_axi_arready, m_axi_rid, m_axi_rlast, m_axi_rvalid,
    input  wire [    1:0] m_axi_bresp, m_axi_rresp,
    input  wire [16*W-1:0] m_axi_rdata
);

  wire read_ready, write_ready, reads_fail, writes_fail;
  assign ready = write ? write_ready : read_ready;
  assign {m_axi_awid, m_axi_arid} = '0;
  assign m_axi_awburst = 2'b01;
  assign m_axi_arburst = 2'b01;
  assign m_axi_awsize = $clog2(2 * W);
  assign m_axi_arsize = $clog2(2 * W);

  axi_read #(.W(W)) reader (
      .clk, .rst, .base, .forget, .valid(valid && !write), .address, .count(count[$clog2(W):0]), .ready(read_ready),
      .read_valid, .read_words, .error(reads_fail), .araddr(m_axi_araddr), .arlen(m_axi_arlen), .arvalid(m_axi_arvalid),
      .arready(m_axi_arready), .rdata(m_axi_rdata), .rresp(m_axi_rresp), .rlast(m_axi_rlast), .rvalid(m_axi_rvalid),
      .rready(m_axi_rready)
  );
  axi_write #(.W(W)) writer (
      .clk, .rst, .base, .valid(valid && write), .address, .count(count[$clog2(W):0]), .ready(write_ready), .write_words,
      .quiet, .error(writes_fail), .awaddr(m_axi_awaddr), .awlen(m_axi_awlen), .awvalid(m_axi_awvalid),
      .awready(m_axi_awready), .wdata(m_axi_wdata), .wstrb(m_axi_wstrb), .wlast(m_axi_wlast), .wvalid(m_axi_wvalid),
      .wready(m_axi_wready), .bresp(m_axi_bresp), .bvalid(m_axi_bvalid), .bready(m_axi_bready)
  );

  always @(posedge clk) begin
    read_error  <= !rst && (read_error || reads_fail);
    write_error <= !rst && (write_error || writes_fail);
  end

endmodule
