#!/usr/bin/env python3
"""Serves Fibonacci numbers on 127.0.0.1:3000."""
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

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


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body, **headers):
        data = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.close_connection = True
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def skip_body(self):
        """Closing with unread data could reset the connection under the answer."""
        length = self.headers.get("Content-Length", "")
        if re.fullmatch("[0-9]{1,6}", length):
            self.rfile.read(int(length))

    def handle_any(self):
        self.skip_body()
        path, _, query = self.path.partition("?")
        if path.startswith("http://"):
            path = urlsplit(path).path
        if path != "/fib":
            return self.answer(404, {"error": "no such path"})
        if self.command != "GET":
            return self.answer(405, {"error": "only GET is allowed here"}, Allow="GET")
        n = wanted(query.partition("#")[0])
        if n is None:
            return self.answer(400, {"error": "n must be given once, a whole number from 0 to %d" % LIMIT})
        return self.answer(200, {"result": fib(n)})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_any

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 64


if __name__ == "__main__":
    Server(("127.0.0.1", 3000), Handler).serve_forever()
