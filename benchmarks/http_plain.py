"""What one writes without fluidb: an ASGI handler around ONNX Runtime, which runs the whole network for each request.

It prints a line once it is ready; ``http_load.py`` starts it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import numpy as np
import onnxruntime
import uvicorn


def started(path: str) -> tuple[Any, str, list[Any], str]:
    """A network on one thread: its session, the name of its input, the shape of a sample, the name of its answer."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    return session, given.name, given.shape[1:], session.get_outputs()[-1].name


def free_port() -> socket.socket:
    """A socket at a free port; asyncio sends small answers at once only if the protocol is stated."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    return listening


def serve(path: str) -> None:
    """Answer what `fluidb serve` is asked, with samples as bytes."""
    (session, name, shape, answer), turn = started(path), asyncio.Lock()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        size = int(dict(scope["headers"])[b"inference-header-content-length"])
        values = np.frombuffer(body[size:], np.float32).reshape(-1, *shape)
        async with turn:
            (scores,) = await asyncio.to_thread(session.run, [answer], {name: values})
        body = scores.tobytes()
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    listening = free_port()
    sys.stderr.write(f"serving at http://127.0.0.1:{listening.getsockname()[1]} plainly\n")
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_level="error", log_config=None)
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    serve(sys.argv[1])
