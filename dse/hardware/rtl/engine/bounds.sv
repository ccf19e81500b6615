// The words of a beat, each kept within the bounds of the layer: 0 is the lower one of a rectifier.

`default_nettype none

module bounds (
    input  wire                     clk,
    input  wire engine_pkg::word_t  low,     // signed, as words are
    input  wire engine_pkg::word_t  high,
    input  wire engine_pkg::beat_t  words,
    output      engine_pkg::beat_t  bounded  // a cycle later
);

  localparam int WORD = engine_pkg::WORD_BITS;

  for (genvar i = 0; i < engine_pkg::W; i++) begin : gen_word
    engine_pkg::word_t word;
    always_ff @(posedge clk) word <= words[i*WORD+:WORD];
    assign bounded[i*WORD+:WORD] = ($signed(word) < $signed(low)) ? low : ($signed(word) > $signed(high)) ? high : word;
  end

endmodule

`default_nettype wire
