"""Secrets, in whatever clothes they come."""

from __future__ import annotations

import base64
import json
import tracemalloc
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from termarena.core.scrub import BLOCK_BYTES, Scrubber

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.records import Json

VALUE = 'p&ss "wörd"/+42'
SCRUBBER = Scrubber({"MY_KEY": VALUE, "SHORT": "1234567"})
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEow' * 20}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
def test_a_known_value_in_base64_wherever_it_stands(before: str) -> None:
    encoded = base64.b64encode(f"{before}{VALUE} and more".encode()).decode()
    clean = SCRUBBER.scrub(f"Basic {encoded}.")
    assert "[secret MY_KEY]" in clean
    kept = clean.removeprefix("Basic ").replace("[secret MY_KEY]", "")
    assert len(kept) < len(encoded) - len(VALUE)


@pytest.mark.parametrize("value", ['back\\slash"quote', "line\nbreak\tand\x01more", "snow\u2603man\u2028s", VALUE])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_value_that_json_escapes_is_found_in_a_structure_however_often_it_was_escaped(value: str, depth: int) -> None:
    form = value
    for _ in range(depth):
        form = json.dumps(form)[1:-1]
    scrubber = Scrubber({"MY_KEY": value})
    inside: Json = {"rows": [{"text": f"a\n{form}"}, {f"{form}é": None}]}
    # Escaped twice it is no form that anybody writes: what matters is that both ways of looking agree.
    found = {"rows": [{"text": scrubber.scrub(f"a\n{form}")}, {scrubber.scrub(f"{form}é"): None}]}
    assert scrubber.scrub_json(inside) == found
    assert depth == 2 or "[secret MY_KEY]" in str(found)


def test_a_key_behind_an_escaped_line_break_is_found_in_a_structure() -> None:
    key = "sk-" + "a1" * 20
    assert Scrubber().scrub_json({"said": [f"key:\n{key}\n"]}) == {"said": ["key:\n[secret api-key]\n"]}
    assert Scrubber().scrub_json({"said": ["task-1"]}) == {"said": ["task-1"]}


@pytest.mark.parametrize(
    "form", [VALUE, quote(VALUE, safe=""), json.dumps(VALUE)[1:-1], json.dumps(VALUE, ensure_ascii=False)[1:-1]]
)
def test_a_known_value_in_every_form(form: str) -> None:
    assert SCRUBBER.scrub(f"<{form}> and <{form}>") == "<[secret MY_KEY]> and <[secret MY_KEY]>"


def test_a_short_value_is_left_alone() -> None:
    assert SCRUBBER.scrub("1234567") == "1234567"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key sk-proj-abcDEF123456_7890abcd.", "key [secret api-key]."),
        ("ghp_" + "a1B2" * 9, "[secret github-token]"),
        ("github_pat_" + "a1B2_" * 9, "[secret github-token]"),
        ("AKIAIOSFODNN7EXAMPLE", "[secret aws-key]"),
        ("xoxb-1234567890-abcdefghij", "[secret slack-token]"),
        ("AIza" + "b" * 35, "[secret google-key]"),
        ("Authorization: Bearer abcdefgh12345678==", "Authorization: Bearer [secret bearer-token]"),
        ("x eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2Q y", "x [secret jwt] y"),
        (f"a\n{PEM}\nb", "a\n[secret private-key]\nb"),
        (json.dumps(PEM), '"[secret private-key]"'),
    ],
)
def test_keys_are_known_by_their_shape(text: str, clean: str) -> None:
    assert SCRUBBER.scrub(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "task-abcdefghijklmnopqrstuvwxyz0123456789",
        "sk-short",
        "AKIAlowercase1234567",
        "the bearer of this letter",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN RSA PRIVATE KEY----- is how it begins",
        "eyJhbGciOiJI and nothing more",
    ],
)
def test_ordinary_text_is_the_same_object(text: str) -> None:
    assert SCRUBBER.scrub(text) is text


def test_bytes_need_not_be_text() -> None:
    raw = b"\xff\x00" + VALUE.encode() + b"\xfe"
    assert SCRUBBER.scrub_bytes(raw) == b"\xff\x00[secret MY_KEY]\xfe"
    assert SCRUBBER.scrub("\udcff ok") == "\udcff ok"


def test_json_is_scrubbed_with_its_keys() -> None:
    value: Json = {VALUE: [1, None, True, 2.5, {"deep": f"x{VALUE}"}]}
    assert SCRUBBER.scrub_json(value) == {"[secret MY_KEY]": [1, None, True, 2.5, {"deep": "x[secret MY_KEY]"}]}


def test_secrets_of_the_environment_by_the_names_of_their_variables() -> None:
    names = ["OPENAI_API_KEY", "GH_TOKEN", "APP_SECRET", "DB_PASSWORD", "AWS_CREDENTIALS", "hf_token", "API_KEY_2"]
    environ = {name: f"value-of-{name}" for name in [*names, "PATH", "HOME", "KEYBOARD", "TOKENIZER"]}
    scrubber = Scrubber.from_environment(environ)
    for name, value in environ.items():
        assert scrubber.scrub(f"({value})") == (f"([secret {name}])" if name in names else f"({value})")


def test_a_secret_within_another_goes_with_it() -> None:
    scrubber = Scrubber({"OUTER": "abcdefgh-12345678-xyz", "INNER": "12345678-xyz"})
    assert scrubber.scrub("abcdefgh-12345678-xyz 12345678-xyz") == "[secret OUTER] [secret INNER]"


# Files.


@pytest.mark.parametrize("shift", [0, 1, 5, 15, 16, 17, 18, 30, 500])
@pytest.mark.parametrize("secret", [VALUE, "Bearer abcdefgh12345678==", PEM])
def test_a_secret_across_the_border_of_two_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str, shift: int
) -> None:
    block, longest = 40_000, 16_504
    monkeypatch.setattr("termarena.core.scrub.BLOCK_BYTES", block)
    # What was read is written up to a longest secret before its end: that is a border, and so is the end.
    text = "".join("x" * (border - shift) + f" {secret} " for border in (block, block - longest, longest, 2 * block))
    path = tmp_path / "log"
    path.write_text(text)
    path.chmod(0o640)
    assert SCRUBBER.scrub_file(path) == 4
    assert path.read_text() == SCRUBBER.scrub(text)
    assert secret.rsplit(maxsplit=1)[-1] not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]


def test_a_file_without_secrets_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"nothing here" * 1000)
    before = path.stat()
    assert SCRUBBER.scrub_file(path) == 0
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]


def test_a_large_file_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        for _ in range(10):
            file.write(b"ordinary words\n" * 69905 + VALUE.encode() + b"\n")
    tracemalloc.start()
    try:
        assert SCRUBBER.scrub_file(path) == 10
        assert tracemalloc.get_traced_memory()[1] < 6 * BLOCK_BYTES
    finally:
        tracemalloc.stop()
    assert VALUE.encode() not in path.read_bytes()
