"""Commands of run time: traces, and one simulation."""
