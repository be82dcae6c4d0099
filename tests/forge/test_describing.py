"""Results asked for in words: exact ones, or none."""

from __future__ import annotations

import pytest

from support.sessions import command, session
from termarena.forge.describing import described
from termarena.forge.draft import synthesize


def _phrase(text: str) -> str | None:
    found = described(synthesize(session("Words", "printf 'a\\n' > f.txt", f"{text} > out.txt")))
    return found["/app/out.txt"][1].phrase if "/app/out.txt" in found else None


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("sort -u f.txt", "the lines of `f.txt`, sorted in ascending order, each once"),
        ("grep -ic 'error' f.txt", "the number of lines of `f.txt` that contain `error` in upper or lower case"),
        ("wc -l < f.txt", "the number of lines of `f.txt`"),
        ("head -3 f.txt", "the lines of `f.txt`, only the first 3 of these"),
        ("cat f.txt | tr a-z A-Z", "the lines of `f.txt`, all letters in upper case"),
        ("sed 's/a/b/g' f.txt", "the lines of `f.txt`, with every `a` of each line replaced by `b`"),
        ("seq 3 9", "the whole numbers from 3 to 9 in ascending order"),
        ("python3 f.txt x", "what the program `f.txt` prints when it is run with the arguments `x`"),
    ],
)
def test_words_for_common_programs(text: str, phrase: str) -> None:
    assert _phrase(text) == phrase


@pytest.mark.parametrize(
    "text",
    [
        "grep -A1 x f.txt",  # an option that the words do not know
        "sort --unique f.txt",
        "awk '{ print NF }' f.txt",
        "find . -name '*.txt'",  # in no order
        "sed 's/a.c/b/' f.txt",  # a pattern, not a text
        "cat f.txt && cat f.txt",  # more than a pipeline
        "cat $FILE",
        "echo hello",
    ],
)
def test_no_words_where_they_would_not_be_exact(text: str) -> None:
    assert _phrase(text) is None


def test_a_file_that_is_written_twice_is_not_described() -> None:
    draft = synthesize(session("Twice", "sort a > out", "sort b >> out", command("cat out", "x")))
    assert described(draft) == {}
