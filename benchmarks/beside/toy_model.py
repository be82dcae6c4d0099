"""A model behind OpenAI's interface that answers from a list, and remembers when it was asked and when it answered."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ToyModel"]


class ToyModel:
    """A server on loopback, for the length of a `with`; the last reply is given again and again."""

    def __init__(self, replies: Sequence[str]) -> None:
        """`replies` are texts."""
        self._replies = replies
        self.asked_at: list[float] = []
        self.answered_at: list[float] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        """Serve."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def between_ms(self) -> list[float]:
        """From each answer to the next question: what the agent took, the model's time excluded."""
        pairs = zip(self.answered_at, self.asked_at[1:], strict=False)
        return [(asked - answered) * 1000 for answered, asked in pairs]

    def _answer(self) -> bytes:
        self.asked_at.append(time.monotonic())
        text = self._replies[min(len(self.asked_at), len(self._replies)) - 1]
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        document: dict[str, Any] = {"id": "x", "object": "chat.completion", "created": 0, "model": "toy"}
        return json.dumps({**document, "choices": [choice], "usage": usage}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        toy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._send(toy._answer())
                toy.answered_at.append(time.monotonic())

            def do_GET(self) -> None:
                self._send(json.dumps({"object": "list", "data": [{"id": "toy"}]}).encode())

            def _send(self, content: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
