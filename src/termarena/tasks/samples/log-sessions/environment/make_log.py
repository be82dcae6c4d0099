"""Writes an access log to standard output; always the same one."""
import random
import sys
import time

rng = random.Random(20240228)


def below(n):
    return int(rng.random() * n)


def pick(items):
    return items[below(len(items))]


AGENTS = ["Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Windows NT 10.0; Win64; x64)", "curl/7.88.1", "Feedfetcher", "-", "Mozilla/5.0 [de] (Macintosh)"]
PATHS = ["/", "/docs/", "/docs/install", "/docs/api", "/blog/", "/blog/2024/02", "/img/logo.png", "/search", "/download/tool.tar.gz", "/login", "/a%20b", "/cart"]
QUERIES = ["", "", "", "?q=tcp", "?page=2", "?next=/docs/?x", "?"]
CLIENTS = [f"198.51.100.{n}" for n in range(3, 60, 3)] + [f"203.0.113.{n}" for n in range(1, 40, 2)] + ["2001:db8::17", "2001:db8::9", "crawler.example.net", "10.0.0.7"]
START = 1709121600  # 28 Feb 2024 12:00 UTC


def stamp(t):
    g = time.gmtime(t)
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    return f"{g.tm_mday:02}/{months[g.tm_mon - 1]}/{g.tm_year}:{g.tm_hour:02}:{g.tm_min:02}:{g.tm_sec:02} +0000"


def line(client, t):
    status = pick([200, 200, 200, 200, 200, 304, 302, 404, 403, 500])
    path = pick(PATHS)
    size = "-" if status == 304 else str(below(60000))
    if path.endswith(".gz") and status == 200:
        size = str(1500000000 + below(1000000000))
    return (f'{client} - {pick(["-", "-", "-", "anna", "bert"])} [{stamp(t)}] "{pick(["GET", "GET", "GET", "POST", "HEAD"])} {path}{pick(QUERIES)} HTTP/1.1" '
            f'{status} {size} "{pick(["-", "https://example.org/", "https://example.net/?s=a b"])}" "{pick(AGENTS)}"')


def broken(client, t):
    good = line(client, t)
    kind = below(9)
    if kind == 0:
        return ""
    if kind == 1:
        return good[:below(60)]
    if kind == 2:
        return good.replace("+0000", "+0100")
    if kind == 3:
        return good.replace('"GET ', '"get ').replace('"POST ', '"\\x16\\x03 ').replace('"HEAD ', '"-" ')
    if kind == 4:
        return good + " 0.004"
    if kind == 5:
        return good.replace(" - ", "  - ", 1)
    if kind == 6:
        return good.replace("/Feb/", "/Feb./").replace("/Mar/", "/03/")
    if kind == 7:
        return good.replace(" HTTP/1.1", "")
    return "# log rotated"


events = []
for client in CLIENTS:
    t = START + below(40000)
    for _ in range(2 + below(6)):
        for _ in range(1 + below(22)):
            events.append((t, client))
            t += pick([0, 1, 2, 5, 30, 300, 900, 1799, 1800]) if below(12) else below(1800)
        t += pick([1801, 1802, 3600, 20000, 1801 + below(30000)])
arrival = sorted(range(len(events)), key=lambda i: (events[i][0] + below(200), i))
for i in arrival:
    t, client = events[i]
    if below(40) == 0:
        print(broken(client, t))
    print(line(client, t))
sys.stdout.flush()
