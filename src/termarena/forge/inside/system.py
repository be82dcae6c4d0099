"""Looks at a machine beyond its files: users, groups, jobs of cron, services that answer; and reads simple YAML.

Stands before `probes.py` in the one file that goes into tasks. Python alone, as there.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import socket
import time

FIRST_PERSON = 1000
NOBODY = 65534
DECOY = "somebody-else"
"""A user that only stands there while facts are gathered, so that those who come get other numbers."""
SERVICE_PATIENCE_S = 8.0
LONGEST_ANSWER = 16 << 10
LISTENS = "0A"
DEEPEST_YAML = 30


def user(name: str) -> dict[str, object]:
    """A user's home, shell and groups, by their names."""
    found = pwd.getpwnam(name)
    groups = sorted(one.gr_name for one in grp.getgrall() if name in one.gr_mem)
    return {
        "home": found.pw_dir,
        "shell": found.pw_shell,
        "group": grp.getgrgid(found.pw_gid).gr_name,
        "groups": groups,
    }


def group(name: str) -> list[str]:
    """The members that a group lists, sorted."""
    return sorted(grp.getgrnam(name).gr_mem)


def people() -> list[tuple[str, list[object]]]:
    """The questions about users and groups that are no part of a system."""
    users = [one.pw_name for one in pwd.getpwall() if FIRST_PERSON <= one.pw_uid < NOBODY]
    groups = [one.gr_name for one in grp.getgrall() if FIRST_PERSON <= one.gr_gid < NOBODY and one.gr_name not in users]
    asked: list[tuple[str, list[object]]] = [("user", [name]) for name in users]
    return asked + [("group", [name]) for name in groups]


def owner(path: str) -> list[str]:
    """The names of user and group, or their numbers where nobody has them."""
    found = os.lstat(path)
    users = {one.pw_uid: one.pw_name for one in pwd.getpwall() if one.pw_name != DECOY}
    groups = {one.gr_gid: one.gr_name for one in grp.getgrall() if one.gr_name != DECOY}
    return [users.get(found.st_uid, str(found.st_uid)), groups.get(found.st_gid, str(found.st_gid))]


def cron_jobs(path: str) -> list[str]:
    """The lines of a table of cron jobs that are no comments, sorted, their fields one space apart."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    jobs = [" ".join(line.split()) for line in lines if line and not line.startswith("#")]
    if not jobs:
        raise ValueError("no jobs")
    return sorted(jobs)


def listening_ports() -> list[int]:
    """The TCP ports that somebody listens on, as the kernel tells."""
    found: set[int] = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(name):
            with open(name, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
            found.update(int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENS)
    return sorted(found)


def has_others() -> bool:
    """Whether a process is there that could still come to listen: neither the first one nor one that led to us."""
    known, at = {1}, os.getpid()
    while at > 1:
        known.add(at)
        with open(f"/proc/{at}/stat", encoding="utf-8", errors="replace") as file:
            at = int(file.read().rpartition(")")[2].split()[1])
    return any(int(name) not in known for name in os.listdir("/proc") if name.isdecimal())


def services() -> list[tuple[str, list[object]]]:
    """The questions about what listens, once something does; a service may take a moment to come up."""
    deadline = time.monotonic() + SERVICE_PATIENCE_S
    while not listening_ports() and has_others() and time.monotonic() < deadline:
        time.sleep(0.05)
    return [("serves", [port]) for port in listening_ports()]


def serves(port: int) -> str:
    """What answers on a TCP port of this machine to a request for a page: the status and the body, or what it says."""
    deadline = time.monotonic() + SERVICE_PATIENCE_S
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=SERVICE_PATIENCE_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline or not has_others():
                raise
            time.sleep(0.05)
    with connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while len(answer) < LONGEST_ANSWER and (part := connection.recv(4096)):
            answer += part
    head, _, body = answer.decode("utf-8", "replace").partition("\r\n\r\n")
    status = re.match(r"HTTP/\S+ (\d{3})", head)
    return f"HTTP {status[1]}\n{body}" if status else head


# YAML, as far as configuration files go: mappings and lists by indentation, plain and quoted scalars, comments.


def yaml_value(path: str) -> object:
    """What a simple YAML file holds; anything beyond raises `ValueError`, and the file is taken as text."""
    with open(path, encoding="utf-8") as file:
        rows = [(len(line) - len(line.lstrip(" ")), _uncommented(line).strip()) for line in file]
    rows = [row for row in rows if row[1] and row[1] != "---"]
    value, rest = _yaml_block(rows, rows[0][0], 0) if rows else (None, [])
    if rest or not isinstance(value, (dict, list)):
        raise ValueError("no simple YAML")
    return value


def _uncommented(line: str) -> str:
    if "\t" in line[: len(line) - len(line.lstrip())]:
        raise ValueError("a tab in the indentation")
    return re.sub(r"""^((?:[^#'"]|(?<!\s)#|'[^']*'|"[^"\\]*")*?)(?:(?:^|\s)#.*)?$""", r"\1", line.rstrip("\n"))


def _yaml_block(rows: list[tuple[int, str]], indent: int, depth: int) -> tuple[object, list[tuple[int, str]]]:
    if depth > DEEPEST_YAML:
        raise ValueError("nested too deep")
    is_list = rows[0][1].startswith("- ") or rows[0][1] == "-"
    entries: list[object] = []
    table: dict[str, object] = {}
    while rows and rows[0][0] == indent and (rows[0][1].startswith("- ") or rows[0][1] == "-") == is_list:
        text, rest = rows[0][1], rows[1:]
        if is_list:
            value, rows = _yaml_entry(text[1:].strip(), indent, rest, depth)
            entries.append(value)
            continue
        key, sep, inner = text.partition(":")
        if not sep or (inner and not inner.startswith(" ")) or key.strip() in table:
            raise ValueError(f"no name and value: {text[:40]}")
        table[str(_yaml_scalar(key.strip()))], rows = _yaml_after(inner.strip(), indent, rest, depth)
    return (entries if is_list else table), rows


def _yaml_entry(
    text: str, indent: int, rest: list[tuple[int, str]], depth: int
) -> tuple[object, list[tuple[int, str]]]:
    if re.match(r"""[^'"{\[][^'"]*:(?:\s|$)""", text):  # a mapping that begins behind the hyphen
        return _yaml_block([(indent + 2, text), *rest], indent + 2, depth + 1)
    return _yaml_after(text, indent, rest, depth)


def _yaml_after(
    text: str, indent: int, rest: list[tuple[int, str]], depth: int
) -> tuple[object, list[tuple[int, str]]]:
    if text:
        return _yaml_scalar(text), rest
    is_list = bool(rest) and rest[0][0] == indent and rest[0][1].startswith("- ")
    if rest and (rest[0][0] > indent or is_list):
        return _yaml_block(rest, rest[0][0], depth + 1)
    return None, rest


def _yaml_scalar(text: str) -> object:
    if text[0] in "\"'":
        if len(text) < len("''") or text[-1] != text[0] or text[0] in text[1:-1] or "\\" in text:
            raise ValueError("a quoted text beyond the simple")
        return text[1:-1]
    if text[0] in "{[&*!|>%@`" and text not in ("[]", "{}"):
        raise ValueError("beyond simple YAML")
    words: dict[str, object] = {"true": True, "false": False, "null": None, "~": None, "[]": [], "{}": {}}
    if text.lower() in words:
        return words[text.lower()]
    for pattern, kind_of in ((r"[-+]?\d+", int), (r"[-+]?\d+\.\d+(?:e[-+]?\d+)?", float)):
        if re.fullmatch(pattern, text):
            return kind_of(text)
    return text
