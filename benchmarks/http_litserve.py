"""LitServe around ONNX Runtime, with the whole network for each request: needs litserve and onnxruntime only.

It prints a line once it is ready; ``http_load.py`` starts it.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from typing import Any

import litserve
import numpy as np
import onnxruntime


class Whole(litserve.LitAPI):  # type: ignore[misc]  # it may not be installed
    """Answers JSON at /predict; ``path`` is the model's file."""

    path = ""

    def setup(self, _: Any) -> None:
        """Load the network, on one thread."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        (self.given,), self.answer = self.session.get_inputs(), self.session.get_outputs()[-1].name

    def decode_request(self, request):  # type: ignore[no-untyped-def]  # LitServe would ask for a stated type
        """Read the sample."""
        return np.array(request["data"], np.float32).reshape(-1, *self.given.shape[1:])

    def predict(self, sample: Any) -> Any:
        """Its answer."""
        return self.session.run([self.answer], {self.given.name: sample})[0]

    def encode_response(self, answer: Any) -> Any:
        """As JSON."""
        return {"data": answer.ravel().tolist()}


def tell_ready(port: int, told: int) -> None:
    """Print a line once the server is healthy."""
    while True:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
            if answer.status == 200:
                os.write(told, f"serving at http://127.0.0.1:{port} with LitServe\n".encode())
                return
        time.sleep(0.1)


def serve(path: str) -> None:
    """Serve until the process ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    told = os.dup(2)  # its log goes elsewhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    threading.Thread(target=tell_ready, args=(port, told), daemon=True).start()
    api = Whole()
    api.path = path
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=False)
    server.run(host="127.0.0.1", port=port, generate_client_file=False, log_level="error")


if __name__ == "__main__":
    serve(sys.argv[1])
