#!/usr/bin/env python3
"""Serves Fibonacci numbers on 127.0.0.1:3000, in one thread: who is slow waits alone."""
import asyncio
import json
import os
import re
import socket
import sys
from http import HTTPStatus
from urllib.parse import parse_qsl

LIMIT = 100000
sys.set_int_max_str_digits(0)  # F(100000) has 20899 digits


def fib(n):
    """F(n) by doubling: F(2k) = F(k)(2F(k+1) - F(k)), F(2k+1) = F(k)^2 + F(k+1)^2."""
    a, b = 0, 1
    for bit in bin(n)[2:]:
        a, b = a * (2 * b - a), a * a + b * b
        if bit == "1":
            a, b = b, a + b
    return a


def wanted(query):
    """The n that a query string asks for, or None."""
    values = [v for k, v in parse_qsl(query, keep_blank_values=True) if k == "n"]
    if len(values) != 1 or not re.fullmatch("[0-9]+", values[0]):
        return None
    digits = values[0].lstrip("0") or "0"
    if len(digits) > 6 or int(digits) > LIMIT:
        return None
    return int(digits)


def answer(method, target):
    """Status and body."""
    path, _, query = target.partition("?")
    if path != "/fib":
        return 404, {"error": "no such path"}
    if method != "GET":
        return 405, {"error": "only GET is allowed here"}
    n = wanted(query.partition("#")[0])
    if n is None:
        return 400, {"error": "n must be given once, a whole number from 0 to %d" % LIMIT}
    return 200, {"result": fib(n)}


async def read_request(reader):
    """Method and target; what follows the head is read and dropped, since closing with unread data could reset the connection under the answer."""
    line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = line.split(" ")
    for field in fields:
        name, _, value = field.partition(":")
        if name.lower() == "content-length":
            await reader.readexactly(int(value))
    return method, target


async def serve(reader, writer):
    try:
        method, target = await read_request(reader)
        status, body = answer(method, target)
        data = json.dumps(body).encode() + b"\n"
        head = ["HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase), "Content-Type: application/json", "Content-Length: %d" % len(data), "Connection: close"]
        if status == 405:
            head.append("Allow: GET")
        writer.write("\r\n".join([*head, "", ""]).encode() + (b"" if method == "HEAD" else data))
        await writer.drain()
    except (ValueError, EOFError, ConnectionError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def main(listening):
    async with await asyncio.start_server(serve, sock=listening) as server:
        await server.serve_forever()


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 3000), backlog=64)
    with open("/app/server.log", "a") as log:
        print("listening on %s:%d" % listening.getsockname(), file=log)
    if os.fork() == 0:
        os.setsid()
        asyncio.run(main(listening))
