#!/bin/sh
# Tries Binet's formula in floating point, which is only right for small n.
cat >/app/server.py <<'PY'
import json, math
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
class H(BaseHTTPRequestHandler):
    def send(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Allow", "GET")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
    def any(self):
        u = urlsplit(self.path)
        if u.path != "/fib":
            return self.send(404, {"error": "not found"})
        if self.command != "GET":
            return self.send(405, {"error": "method"})
        n = parse_qs(u.query, keep_blank_values=True).get("n", [])
        if len(n) != 1 or not n[0].isascii() or not n[0].isdigit() or len(n[0].lstrip("0")) > 6 or int(n[0].lstrip("0") or 0) > 100000:
            return self.send(400, {"error": "bad n"})
        k = int(n[0].lstrip("0") or 0)
        phi = (1 + math.sqrt(5)) / 2
        try:
            value = round(phi ** k / math.sqrt(5))
        except OverflowError:
            value = 0
        self.send(200, {"result": value})
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = any
    def log_message(self, *a):
        pass
ThreadingHTTPServer(("127.0.0.1", 3000), H).serve_forever()
PY
nohup python3 /app/server.py </dev/null >/dev/null 2>&1 &
sleep 1
