// Multipliers and memories of an engine <T_R,T_P,T_C>, as docs/model.md (Blocks) assumes them.  It has no control:
// whoever drives its ports decides what it computes.  It is for counting what a synthesis places.

// One bank: a write port and a read port, each with an address of its own.
module bank #(
    parameter WIDTH = 16,
    parameter DEPTH = 1024,
    parameter LUTRAM_DEPTH = 64,
    parameter ABITS = DEPTH > 1 ? $clog2(DEPTH) : 1
) (
    input clk,
    input we,
    input [ABITS-1:0] waddr,
    input [WIDTH-1:0] wdata,
    input [ABITS-1:0] raddr,
    output reg [WIDTH-1:0] rdata
);
    generate
        if (DEPTH <= LUTRAM_DEPTH) begin : shallow
            (* ram_style = "distributed" *) reg [WIDTH-1:0] words [0:DEPTH-1];
            always @(posedge clk) begin
                if (we) words[waddr] <= wdata;
                rdata <= words[raddr];
            end
        end else begin : deep
            (* ram_style = "block" *) reg [WIDTH-1:0] words [0:DEPTH-1];
            always @(posedge clk) begin
                if (we) words[waddr] <= wdata;
                rdata <= words[raddr];
            end
        end
    endgenerate
endmodule

module engine_memories #(
    parameter T_R = 1024,
    parameter T_P = 4,
    parameter T_C = 4,
    parameter PORT = 16,  // words of a beat
    parameter WORD = 16,
    parameter SUM = 48
) (
    input clk,
    input [T_P-1:0] beat_of,  // the bank of inputs that a beat is for
    input [31:0] beat_at,
    input [PORT*WORD-1:0] beat,
    input shift_weights,
    input swap_weights,
    input [31:0] row,  // of a half: T_R / PORT beats of PORT rows
    input [31:0] lane,
    input first,
    input sum_we,
    input [31:0] sum_read,
    input [31:0] sum_write,
    input store_we,
    input [31:0] store_write,
    input [31:0] store_read,
    input [31:0] channel,
    output [WORD-1:0] stored
);
    localparam BEATS = 2 * ((T_R + PORT - 1) / PORT);
    localparam A = BEATS > 1 ? $clog2(BEATS) : 1;
    localparam S = T_R > 1 ? $clog2(T_R) : 1;
    localparam O = $clog2(2 * T_R);

    wire [T_P*WORD-1:0] inputs;
    reg [T_P*T_C*WORD-1:0] next_weights, weights;
    wire [T_C*WORD-1:0] out;
    genvar p, c;

    always @(posedge clk) begin
        if (shift_weights) next_weights <= {next_weights, beat[WORD-1:0]};
        if (swap_weights) weights <= next_weights;
    end

    generate
        for (p = 0; p < T_P; p = p + 1) begin : input_bank
            wire [PORT*WORD-1:0] rows;
            bank #(.WIDTH(PORT * WORD), .DEPTH(BEATS)) held (
                .clk(clk), .we(beat_of[p]), .waddr(beat_at[A-1:0]), .wdata(beat), .raddr(row[A-1:0]), .rdata(rows)
            );
            assign inputs[p*WORD +: WORD] = rows >> (WORD * lane);
        end
        for (c = 0; c < T_C; c = c + 1) begin : element
            reg signed [SUM-1:0] total;
            wire [SUM-1:0] before;
            integer i;
            always @* begin
                total = first ? 0 : before;
                for (i = 0; i < T_P; i = i + 1)
                    total = total + $signed(inputs[i*WORD +: WORD]) * $signed(weights[(c*T_P+i)*WORD +: WORD]);
            end
            reg [SUM-1:0] summed;
            always @(posedge clk) summed <= total;
            bank #(.WIDTH(SUM), .DEPTH(T_R)) sums (
                .clk(clk), .we(sum_we), .waddr(sum_write[S-1:0]), .wdata(summed),
                .raddr(sum_read[S-1:0]), .rdata(before)
            );
            bank #(.WIDTH(WORD), .DEPTH(2 * T_R)) store (
                .clk(clk), .we(store_we), .waddr(store_write[O-1:0]), .wdata(summed[WORD-1:0]),
                .raddr(store_read[O-1:0]), .rdata(out[c*WORD +: WORD])
            );
        end
    endgenerate
    assign stored = out >> (WORD * channel);
endmodule
