// The words of a beat, each kept within bounds: 0 is the lower one of a rectifier.

`default_nettype none

module bounds #(
    parameter int WIDTH = engine_pkg::WORD_BITS
) (
    input  wire                                  clk,
    input  wire engine_pkg::word_t               low,     // signed, as words are
    input  wire engine_pkg::word_t               high,
    input  wire  [engine_pkg::W*WIDTH-1:0]       words,
    output      engine_pkg::beat_t               bounded  // a cycle later
);

  localparam int WORD = engine_pkg::WORD_BITS;

  logic signed [WIDTH-1:0] lowest, highest;
  assign lowest  = WIDTH'($signed(low));
  assign highest = WIDTH'($signed(high));

  for (genvar i = 0; i < engine_pkg::W; i++) begin : gen_word
    logic [WIDTH-1:0] word;
    always_ff @(posedge clk) word <= words[i*WIDTH+:WIDTH];
    assign bounded[i*WORD+:WORD] = ($signed(word) < lowest) ? low : ($signed(word) > highest) ? high : word[WORD-1:0];
  end

endmodule

`default_nettype wire
