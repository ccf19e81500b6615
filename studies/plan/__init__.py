"""``fluidb plan``: the cheapest board, NPU, exits, thresholds and policy that keep requirements (``docs/plan.md``)."""
