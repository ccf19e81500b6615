"""Design time on a cluster: the rows of each block that each device computes (EdgeSP)."""
