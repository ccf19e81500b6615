"""Design time on a cluster: which device computes which rows of which block (EdgeSP, paper 004)."""
