"""A page in a real browser, spoken to over the DevTools protocol through two pipes: no driver, no extra package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any, Self

FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars", "remote-debugging-pipe",
)  # fmt: skip
PATIENCE_S = 180


class Page:
    """A tab; ``events`` holds what it reported, in order.

    Use as a context manager: the browser ends with the block.
    """

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # the browser listens on 3 and speaks on 4; kept out of the way until the shell has put them there
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out)]
        command = [program, *(f"--{flag}" for flag in FLAGS), f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{high[0]} 4>&{high[1]}', "bash", *command],
            pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)
        self.writer, self.reader, self.held = ours_out, ours_in, b""
        self.events: list[dict[str, Any]] = []
        self.calls = 0
        self.session: str | None = None
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.writer)
        os.close(self.reader)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.held:
            ready, _, _ = select.select([self.reader], [], [], PATIENCE_S)
            piece = os.read(self.reader, 2**20) if ready else b""
            if not piece:
                raise RuntimeError("the browser ended" if ready else f"the browser was silent for {PATIENCE_S} s")
            self.held += piece
        text, _, self.held = self.held.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol."""
        self.calls += 1
        request = {"id": self.calls, "method": method, "params": parameters}
        request |= {"sessionId": self.session} if self.session else {}
        os.write(self.writer, json.dumps(request).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == self.calls:
                assert "error" not in message, (method, message)
                result: dict[str, Any] = message["result"]
                return result

    def open(self, path: Path) -> None:
        """Load a file."""
        self.events.clear()
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read()

    def view(self, width: int, height: int = 900, scheme: str = "light") -> None:
        """Set the size and the colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def evaluate(self, expression: str) -> Any:
        """What an expression of JavaScript is worth, run by the browser's tools and not by the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key, which may also write something."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def pdf(self) -> bytes:
        """The page in print."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """What was written to the console, and what the browser logged or could not run."""
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event["method"] in names]

    @property
    def requests(self) -> list[str]:
        """Everything that was asked for."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]
