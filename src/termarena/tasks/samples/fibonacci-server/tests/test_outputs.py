"""Grades the Fibonacci server, which must be running already."""
import http.client
import json
import os
import socket
import sys
import time
import unittest

HOST, PORT = "127.0.0.1", 3000
if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)


def sequence():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


def first(wanted):
    """{n: F(n)} for the wanted n, in one go from the start."""
    wanted, top = set(wanted), max(wanted)
    return {n: value for n, value in zip(range(top + 1), sequence()) if n in wanted}


def request(method, target, body=None):
    """Status, headers and body; fails if the answer takes more than 2 seconds."""
    started = time.monotonic()
    head = "%s %s HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n" % (method, target, HOST, PORT)
    if body is not None:
        head += "Content-Length: %d\r\n" % len(body)
    with socket.create_connection((HOST, PORT), 5) as s:
        s.sendall(head.encode("ascii") + b"\r\n" + (body or b""))
        answer = http.client.HTTPResponse(s, method=method)
        answer.begin()
        data = answer.read()
    took = time.monotonic() - started
    assert took < 2, "%s %s took %.1f s" % (method, target[:60], took)
    return answer.status, answer.headers, data


def parent(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rpartition(")")[2].split()[1])


def is_anybody_there():
    """Is there a process besides the first one and those that these tests run under?"""
    ours, pid = {1}, os.getpid()
    while pid > 1:
        ours.add(pid)
        pid = parent(pid)
    return any(name.isdigit() and int(name) not in ours for name in os.listdir("/proc"))


def setUpModule():
    """A server that has just been started gets a moment; where no process is left there is nothing to wait for."""
    deadline = time.monotonic() + 5
    while True:
        try:
            socket.create_connection((HOST, PORT), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline or not is_anybody_there():
                raise AssertionError("nothing listens on %s:%d" % (HOST, PORT))
            time.sleep(0.05)


class Case(unittest.TestCase):
    def is_json(self, headers, data):
        kind = headers.get("Content-Type", "").split(";")[0].strip().lower()
        self.assertEqual(kind, "application/json")
        self.assertEqual(headers.get("Content-Length"), str(len(data)))
        return json.loads(data.decode("utf-8"))

    def error(self, status, method, target, body=None):
        got, headers, data = request(method, target, body)
        self.assertEqual(got, status, "%s %s" % (method, target[:60]))
        answer = self.is_json(headers, data)
        self.assertIsInstance(answer, dict)
        self.assertIsInstance(answer.get("error"), str)
        self.assertNotEqual(answer["error"], "")
        return headers

    def result(self, query, want):
        status, headers, data = request("GET", "/fib?" + query)
        self.assertEqual(status, 200, query[:60])
        answer = self.is_json(headers, data)
        self.assertEqual(list(answer), ["result"])
        value = answer["result"]
        self.assertIs(type(value), int, "the result is no plain JSON integer")
        self.assertTrue(value == want, "wrong result for %s" % query[:60])


class Results(Case):
    def results(self, *wanted):
        for n, value in first(wanted).items():
            self.result("n=%d" % n, value)

    def test_first_numbers(self):
        self.results(*range(40))

    def test_beyond_double_precision(self):
        self.results(71, 72, 79, 80, 93, 94, 100, 187, 300, 1000)

    def test_thousands_of_digits_up_to_the_limit(self):
        self.results(4096, 20000, 20577, 20578, 20580, 54321, 100000)

    def test_leading_zeros(self):
        self.result("n=007", 13)
        self.result("n=" + "0" * 5000 + "10", 55)

    def test_percent_encoded_digits(self):
        self.result("n=%31%30", 55)
        self.result("%6E=9", 34)

    def test_other_parameters_are_ignored(self):
        self.result("a=1&n=12&b=-3&nn=4&N=5", 144)
        self.result("x&n=12&", 144)


class BadN(Case):
    def test_missing(self):
        for target in ("/fib", "/fib?", "/fib?m=3", "/fib?N=3", "/fib?nn=3"):
            with self.subTest(target):
                self.error(400, "GET", target)

    def test_empty(self):
        self.error(400, "GET", "/fib?n=")
        self.error(400, "GET", "/fib?n")

    def test_given_twice(self):
        self.error(400, "GET", "/fib?n=3&n=3")
        self.error(400, "GET", "/fib?n=3&n=")
        self.error(400, "GET", "/fib?n=3&%6e=4")

    def test_negative(self):
        self.error(400, "GET", "/fib?n=-1")
        self.error(400, "GET", "/fib?n=-0")

    def test_not_a_number(self):
        for text in ("abc", "1a", "1.0", "1e3", "0x10", "1,000", "NaN", "null", "%00", "3%00"):
            with self.subTest(text):
                self.error(400, "GET", "/fib?n=" + text)

    def test_sign_blank_and_underscore(self):
        for text in ("+5", "%2B5", "%205", "5%20", "5%0A", "1_000"):
            with self.subTest(text):
                self.error(400, "GET", "/fib?n=" + text)

    def test_digits_that_are_not_ascii(self):
        for text in ("%D9%A3", "%EF%BC%95", "%C2%B2", "%E0%A5%AA0"):
            with self.subTest(text):
                self.error(400, "GET", "/fib?n=" + text)

    def test_broken_encoding(self):
        self.error(400, "GET", "/fib?n=%FF")
        self.error(400, "GET", "/fib?n=5%")

    def test_too_large(self):
        for text in ("100001", "1000000", "99999999999999999999", "18446744073709551617", "4294967297", "9" * 6000):
            with self.subTest(text[:30]):
                self.error(400, "GET", "/fib?n=" + text)


class OtherRequests(Case):
    def test_unknown_paths(self):
        for target in ("/", "/fib/", "/fibo?n=3", "/Fib?n=3", "/fib/3", "/index.html", "/a/fib?n=3", "/?n=3"):
            with self.subTest(target):
                self.error(404, "GET", target)

    def test_unknown_path_comes_before_the_method(self):
        self.error(404, "POST", "/other", b"{}")
        self.error(404, "DELETE", "/")

    def test_other_methods(self):
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            with self.subTest(method):
                headers = self.error(405, method, "/fib?n=3", b"n=3" if method in ("POST", "PUT", "PATCH") else None)
                self.assertEqual(headers.get("Allow"), "GET")

    def test_method_comes_before_n(self):
        self.error(405, "POST", "/fib", b"")

    def test_head(self):
        status, headers, data = request("HEAD", "/fib?n=3")
        self.assertEqual((status, data), (405, b""))
        self.assertEqual(headers.get("Allow"), "GET")
        status, headers, data = request("HEAD", "/nothing")
        self.assertEqual((status, data), (404, b""))


class Service(Case):
    def test_only_on_127_0_0_1(self):
        # All of 127/8 is this machine; a server on every address would answer here.
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.2", PORT), 2).close()

    def test_idle_clients_do_not_block_others(self):
        idle = [socket.create_connection((HOST, PORT), 2) for _ in range(8)]
        try:
            for s in idle[4:]:
                s.sendall(b"GET /fib?n=1 HTT")
            for _ in range(3):
                self.result("n=30", 832040)
        finally:
            for s in idle:
                s.close()

    def test_still_up_after_clients_went_away(self):
        for junk in (b"", b"GET /fib?n=50000 HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00\xff\r\n\r\n"):
            with socket.create_connection((HOST, PORT), 2) as s:
                s.sendall(junk)
        self.result("n=50", 12586269025)


if __name__ == "__main__":
    unittest.main()
