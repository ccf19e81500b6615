"""The paths of the server: an ASGI application of the Open Inference Protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from .messages import Asked, Model, Refusal, read_request
from .visits import Visits

BODY_S = 10.0
"""Longest time in which a client sends the body of a request."""

MAX_BODIES = 2**28
"""Bytes of requests that are being read, of all clients together."""

LARGE = 2**20
"""Bytes from which a request is read in a thread of its own: other clients do not wait meanwhile."""

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Answer = tuple[int, bytes, dict[str, str]]


class Gone(Exception):
    """The client has left before it had sent its request."""


class App:
    """The application; ``pages`` are further pages, by their paths: what they answer with, and its type."""

    def __init__(
        self,
        models: Sequence[Model],
        visits: Visits,
        version: str,
        pages: Mapping[str, Callable[[], tuple[bytes, str]]],
    ) -> None:
        self.models, self.visits, self.pages = {model.name: model for model in models}, visits, pages
        self.taken = 0  # bytes of requests that are being read
        self.about = {"name": "fluidb", "version": version, "extensions": ["binary_tensor_data"]}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        try:
            status, body, headers = await self._answer(scope, receive)
        except Gone:
            return
        except Refusal as refusal:
            status, body, headers = refusal.status, to_json({"error": str(refusal)}), refusal.headers
        headers = {"content-type": "application/json", **headers, "content-length": str(len(body))}
        listed = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": listed})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        """What a path answers with."""
        path, method = scope["path"], scope["method"]
        model, verb = self._model(path)
        if verb == "infer":
            if method != "POST":
                raise Refusal(405, f"expected POST, found {method}", allow="POST")
            assert model is not None
            return await self._infer(model, scope, receive)
        if method not in ("GET", "HEAD"):
            raise Refusal(405, f"expected GET, found {method}", allow="GET")
        if path in self.pages:
            body, kind = self.pages[path]()
            return 200, body, {"content-type": kind}
        if verb == "live":
            return 200, to_json({"live": True}), {}
        if verb == "ready":
            known = {"name": model.name} if model else {}
            return 200 if self.visits.ready else 503, to_json(known | {"ready": self.visits.ready}), {}
        return 200, to_json(model.metadata if model else self.about), {}

    def _model(self, path: str) -> tuple[Model | None, str]:
        """The model of a path, if it names one, and what is asked of it."""
        match path.removesuffix("/").split("/")[1:]:
            case ["v2"]:
                return None, "about"
            case ["v2", "health", ("live" | "ready") as health]:
                return None, health
            case ["v2", "models", name, *rest] if name in self.models:
                match rest[2:] if rest[:2] == ["versions", "1"] else rest:
                    case []:
                        return self.models[name], "about"
                    case [("ready" | "infer") as verb]:
                        return self.models[name], verb
            case ["v2", "models", name, *_]:
                raise Refusal(404, f"expected a model of {', '.join(self.models)}, found {name[:80]}")
        if path in self.pages:
            return None, "page"
        raise Refusal(404, f"expected a path of the Open Inference Protocol, version 2, found {path[:80]}")

    async def _infer(self, model: Model, scope: Scope, receive: Receive) -> Answer:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("content-encoding", "identity") != "identity":
            raise Refusal(415, "content-encoding: expected none, found some; send the request as it is",
                          connection="close")  # fmt: skip
        asked = await self._asked(model, headers, receive)
        answer, own = await self.visits.infer(asked, model)
        return 200, answer, own

    async def _asked(self, model: Model, headers: Mapping[str, str], receive: Receive) -> Asked:
        """What a client asks, once all of it is here."""
        pieces: list[bytes] = []
        try:
            async with asyncio.timeout(BODY_S):
                await self._read_body(pieces, receive, model.longest, headers.get("content-length", ""))
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            given = body, headers.get("inference-header-content-length"), model
            return read_request(*given) if len(body) < LARGE else await asyncio.to_thread(read_request, *given)
        except TimeoutError:
            raise Refusal(408, f"expected the request within {BODY_S:g} s", connection="close") from None
        finally:
            self.taken -= sum(map(len, pieces))

    async def _read_body(self, pieces: list[bytes], receive: Receive, longest: int, stated: str) -> None:
        """Add the body of a request, piece by piece, if it is not too long."""
        size, more = int(stated) if stated.isdigit() and len(stated) < 19 else 0, True
        taken = 0
        while more and size <= longest:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            piece, more = message["body"], message["more_body"]
            pieces.append(piece)
            self.taken += len(piece)
            if self.taken > MAX_BODIES:
                raise Refusal(503, "too many long requests at a time", connection="close", **{"retry-after": "1"})
            size = taken = taken + len(piece)
        if size > longest:
            raise Refusal(413, f"expected at most {longest:,} bytes", connection="close")
