#!/bin/sh
# Tries to leave a server that was only run for a short test and is gone afterwards, with a note on how to start it.
cat >/app/server.py <<'PY'
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
sys.set_int_max_str_digits(0)
class H(BaseHTTPRequestHandler):
    def do_GET(self):
        n = int(parse_qs(urlsplit(self.path).query)["n"][0])
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        data = json.dumps({"result": a}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
ThreadingHTTPServer(("127.0.0.1", 3000), H).serve_forever()
PY
timeout 1 python3 /app/server.py </dev/null >/app/server.log 2>&1
echo 'The server works; start it with: python3 /app/server.py' >/app/README
