"""One folder a paper: its experiments, the figures that it prints, and its statements beside ours."""
