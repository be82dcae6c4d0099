"""What a command line is for, as far as its words tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termarena.analysis.shell_words import read_line


@pytest.mark.parametrize(
    ("line", "programs", "effect"),
    [
        ("ls /app; cat /nope", ("ls", "cat"), "look"),
        ("grep -q x f 2>/dev/null", ("grep",), "look"),
        ("ls > /dev/null 2>&1", ("ls",), "look"),
        ("sed -n 3p f", ("sed",), "look"),
        ("sed -i s/a/b/ f", ("sed",), "change"),
        ("find . -name x", ("find",), "look"),
        ("find . -name x -delete", ("find",), "change"),
        ("cat > /app/x <<'EOF'\nrm -rf y; z\nEOF", ("cat",), "change"),
        ("cat f | sort | uniq -c > out.txt", ("cat", "sort", "uniq"), "change"),
        ("> x", (), "change"),
        ("echo thinking", ("echo",), "idle"),
        ("true", ("true",), "idle"),
        ("X=1", (), "idle"),
        ("sudo -E apt-get install -y jq", ("apt-get",), "change"),
        ("FOO=1 timeout 5 ./serve &", ("serve",), "change"),
        ("for i in 1 2; do touch f$i; done", ("for", "touch"), "change"),
        ("python3 --version", ("python3",), "look"),
        ("systemctl status ssh", ("systemctl",), "look"),
        ("systemctl restart ssh", ("systemctl",), "change"),
        ("echo 'unclosed", ("echo",), "idle"),
    ],
)
def test_lines_are_read_for_what_they_are(line: str, programs: tuple[str, ...], effect: str) -> None:
    found = read_line(line)
    assert (found.programs, found.effect) == (programs, effect)


def test_objects_are_what_a_line_names() -> None:
    assert read_line("cd /app && gcc -O2 -o out/main src/main.c").objects == {
        "out/main",
        "main",
        "src/main.c",
        "main.c",
    }


@given(st.text())
def test_any_text_is_read(line: str) -> None:
    assert read_line(line).effect in ("look", "change", "idle")
