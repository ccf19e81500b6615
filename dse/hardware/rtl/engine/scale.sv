// A sum divided by 2**shift, to the nearest (halves up), saturated to 16 bits; then max(., 0) if `relu`.
//
// It shifts by 0, 16, 32 or 48 places, by 0, 4, 8 or 12, and by 0 to 3, each time keeping the bits that may still reach
// the output and one below the binary point.  Where the bits above them are not all the sign, the output saturates.

`default_nettype none

module scale (
    input  wire               clk,
    input  wire        [ 5:0] shift,
    input  wire               relu,
    input  wire signed [47:0] sum,
    output logic       [15:0] out    // three cycles later
);

  logic signed [31:0] far, far_now;
  logic signed [19:0] middle;
  logic signed [16:0] near, near_now, rounded;
  logic far_over, far_over_now, middle_over, near_over, near_over_now, sign_now, sign_then;

  always_comb begin
    case (shift[5:4])
      2'd0: far = {sum[30:0], 1'b0};
      2'd1: far = sum[46:15];
      2'd2: far = 32'(signed'(sum[47:31]));
      default: far = {32{sum[47]}};
    endcase
    far_over = (shift[5:4] == 0 && sum[47:30] != {18{sum[47]}}) || (shift[5:4] == 1 && sum[47:46] != {2{sum[47]}});

    case (shift[3:2])
      2'd0: middle = far_now[19:0];
      2'd1: middle = far_now[23:4];
      2'd2: middle = far_now[27:8];
      default: middle = far_now[31:12];
    endcase
    middle_over = (shift[3:2] == 0 && far_now[31:19] != {13{far_now[31]}})
        || (shift[3:2] == 1 && far_now[31:23] != {9{far_now[31]}}) || (shift[3:2] == 2 && far_now[31:27] != {5{far_now[31]}});

    case (shift[1:0])
      2'd0: near = middle[16:0];
      2'd1: near = middle[17:1];
      2'd2: near = middle[18:2];
      default: near = middle[19:3];
    endcase
    near_over = (shift[1:0] == 0 && middle[19:16] != {4{middle[19]}})
        || (shift[1:0] == 1 && middle[19:17] != {3{middle[19]}}) || (shift[1:0] == 2 && middle[19] != middle[18]);

    rounded = {near_now[16], near_now[16:1]} + {16'b0, near_now[0]};
  end

  always_ff @(posedge clk) begin
    far_now       <= far;
    far_over_now  <= far_over;
    sign_now      <= sum[47];
    near_now      <= near;
    near_over_now <= far_over_now || middle_over || near_over;
    sign_then     <= sign_now;
    if (relu && (near_over_now ? sign_then : rounded[16])) out <= '0;
    else if (near_over_now) out <= sign_then ? 16'h8000 : 16'h7FFF;
    else if (rounded[16] != rounded[15]) out <= 16'h7FFF;  // just below, rounded up
    else out <= rounded[15:0];
  end

endmodule

`default_nettype wire
