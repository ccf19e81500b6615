// A sum divided by 2**shift, to the nearest (halves up), saturated to 16 bits; then max(., 0) if `relu`.

`default_nettype none

module scale (
    input  wire                clk,
    input  wire         [31:0] shift,
    input  wire                relu,
    input  wire  signed [47:0] sum,
    output logic        [15:0] out     // three cycles later
);

  logic signed [47:0] rounded, shifted;

  always_ff @(posedge clk) begin
    rounded <= sum + ((48'd1 << shift) >> 1);
    shifted <= rounded >>> shift;
    if (shifted[47] && relu) out <= '0;
    else if (shifted[47] && !(&shifted[46:15])) out <= 16'h8000;
    else if (!shifted[47] && |shifted[46:15]) out <= 16'h7FFF;
    else out <= shifted[15:0];
  end

endmodule

`default_nettype wire
