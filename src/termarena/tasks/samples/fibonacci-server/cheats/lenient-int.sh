#!/bin/sh
# Tries the obvious server: int() decides what a number is, json.dumps writes it, one client at a time.
cat >/app/server.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit
class H(BaseHTTPRequestHandler):
    def send(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        u = urlsplit(self.path)
        if u.path != "/fib":
            return self.send(404, {"error": "not found"})
        try:
            n = int(parse_qs(u.query)["n"][0])
            if not 0 <= n <= 100000:
                raise ValueError
        except (KeyError, ValueError):
            return self.send(400, {"error": "n must be a number from 0 to 100000"})
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        self.send(200, {"result": a})
    def do_POST(self):
        self.send(405, {"error": "method not allowed"})
    do_PUT = do_DELETE = do_POST
HTTPServer(("127.0.0.1", 3000), H).serve_forever()
PY
nohup python3 /app/server.py </dev/null >/dev/null 2>&1 &
sleep 1
