"""The networks of this machine over HTTP: the Open Inference Protocol, version 2 (``fluidb serve``)."""
