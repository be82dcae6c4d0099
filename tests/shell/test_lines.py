"""Command lines taken apart, and what they do to the world."""

from __future__ import annotations

import pytest

from termarena.shell.effects import Effect, effect_of
from termarena.shell.lines import parse_line


def test_words_lose_their_quotes_and_nothing_else() -> None:
    line = parse_line("""echo "a b" 'c $d' e\\ f $g "h $i" > 'out file.txt' 2>/dev/null""")
    assert line.simples[0].words == ("echo", "a b", "c $d", "e f", "$g", '"h $i"')
    assert line.simples[0].is_literal is False
    assert line.written == ("out file.txt",)


def test_a_pipeline_has_all_its_commands() -> None:
    line = parse_line("FOO=1 make -j2 2>&1 | tee build.log && echo done")
    assert [simple.name for simple in line.simples] == ["make", "tee", "echo"]
    assert line.simples[0].assignments == ("FOO=1",)


def test_a_here_document_belongs_to_its_command() -> None:
    line = parse_line("cat > a.txt <<'EOF'\nrm -rf /\nEOF")
    assert [simple.name for simple in line.simples] == ["cat"]
    assert line.written == ("a.txt",)
    assert line.has_heredoc
    assert line.is_sound


@pytest.mark.parametrize("text", ["if [", "echo 'open", "\0", "x" * 300_000, "((((((", ""])
def test_what_is_no_command_is_told_and_nothing_breaks(text: str) -> None:
    assert parse_line(text).is_sound is (text == "")


def test_deep_nesting_does_not_exhaust_the_stack() -> None:
    parse_line("$(" * 5000 + "ls" + ")" * 5000)


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("clear", Effect.NOTHING),
        ("ls -la | grep foo", Effect.READS),
        ("git branch", Effect.READS),
        ("git branch topic", Effect.CHANGES),
        ("git config --global user.name", Effect.READS),
        ("git config user.name Anna", Effect.CHANGES),
        ("git clone https://example.com/a.git", Effect.REACHES),
        ("git clone ../other here", Effect.CHANGES),
        ("sed 's/a/b/' f", Effect.READS),
        ("sed -i 's/a/b/' f", Effect.CHANGES),
        ("awk '{print $1 > \"out\"}' f", Effect.CHANGES),
        ("find . -name '*.o' -delete", Effect.CHANGES),
        ("find . -name '*.o'", Effect.READS),
        ("tar tzf a.tgz", Effect.READS),
        ("tar xzf a.tgz", Effect.CHANGES),
        ("sqlite3 a.db 'select 1'", Effect.READS),
        ("sqlite3 a.db 'insert into t values (1)'", Effect.CHANGES),
        ("curl -s http://localhost:8000/x", Effect.READS),
        ("curl -s http://127.0.0.1:8000/x -o page", Effect.CHANGES),
        ("curl https://example.com", Effect.REACHES),
        ("pip install requests", Effect.REACHES),
        ("pip --version", Effect.READS),
        ("python3 -m pip install requests", Effect.REACHES),
        ("python3 -m json.tool f", Effect.CHANGES),
        ("sudo -u root chown bob f", Effect.CHANGES),
        ("sudo ls", Effect.READS),
        ("cd /tmp && ls", Effect.SHELL),
        ("X=1", Effect.SHELL),
        ("greet() { echo hi; }", Effect.SHELL),
        ("sleep 5 &", Effect.CHANGES),
        ("echo hi > f", Effect.CHANGES),
        ("echo hi > /dev/null", Effect.READS),
        ("vim f", Effect.TALKS),
        ("frobnicate", Effect.CHANGES),
        ("make test 2>&1 | head", Effect.CHANGES),
        ("ls missing 2>&1 | head", Effect.READS),
        ("echo oops >&2", Effect.READS),
        ("sort -o f f", Effect.CHANGES),
        ("find . | xargs -n 1 rm", Effect.CHANGES),
        ("ls | xargs -I {} cat {}", Effect.READS),
        ("systemctl status cron", Effect.READS),
        ("wget --version", Effect.READS),
    ],
)
def test_effects(text: str, effect: Effect) -> None:
    assert effect_of(parse_line(text)) is effect
