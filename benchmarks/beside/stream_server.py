"""A model server that answers at once, or streams word by word: `python stream_server.py`; prints its port."""

from __future__ import annotations

import asyncio
import json

WORDS = 20
PAUSE_S = 0.1
WHOLE = {
    "id": "x",
    "model": "toy",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 50}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 50},
}


def _event(document: object) -> bytes:
    data = b"data: " + (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _stream(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for number in range(WORDS):
        writer.write(_event({"choices": [{"index": 0, "delta": {"content": f"word{number} "}}]}))
        await asyncio.sleep(PAUSE_S)
    writer.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    writer.write(_event({"choices": [], "usage": WHOLE["usage"]}))
    writer.write(_event(b"[DONE]") + b"0\r\n\r\n")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            body = await reader.readexactly(size)
            if body and json.loads(body).get("stream"):
                await _stream(writer)
            else:
                content = json.dumps(WHOLE if body else {"data": [{"id": "toy"}]}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(content), content))
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
