"""Search of the SubGraphs that an accelerator keeps (SUSHI)."""
