"""The Fluid Batching Engine in SystemVerilog, as it is shipped; ``fbe_pkg.sv`` is written for each design."""
