from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from termarena.core.errors import TaskFormatError
from termarena.tasks.documents import MAX_DEPTH, parse_json, parse_toml
from termarena.tasks.yaml_documents import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

PARSERS = {"json": parse_json, "yaml": parse_yaml, "toml": parse_toml}


def _refused(parse: Callable[..., Any], text: str) -> str:
    with pytest.raises(TaskFormatError) as caught:
        parse(text, file="x")
    assert caught.value.file == "x"
    return caught.value.found


@pytest.mark.parametrize("kind", ["json", "yaml"])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a": ', "}"), ('[{"a": ', "}]")])
def test_nesting_ends_at_the_same_depth_in_every_format(kind: str, opening: str, closing: str) -> None:
    levels = MAX_DEPTH // len(closing)
    assert PARSERS[kind](opening * levels + "1" + closing * levels, file="x")
    for deeper in (levels + 1, 20_000):
        assert "nested too deeply" in _refused(PARSERS[kind], opening * deeper + "1" + closing * deeper)


@pytest.mark.parametrize("text", ["a" + ".a" * 300 + " = 1", "a = " + "[" * 20_000, f"[{'.'.join('a' * 3000)}]\n"])
def test_the_toml_parser_bounds_nesting_itself(text: str) -> None:
    assert "TOML" in _refused(parse_toml, text)


def test_aliases_cannot_nest_deeper_than_brackets() -> None:
    rungs = ["a0: &a0 []", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, MAX_DEPTH + 8))]
    assert "nested too deeply" in _refused(parse_yaml, "\n".join(rungs))


@pytest.mark.parametrize("text", ['"\\ud800"', '["a", {"b": "c\\udfff"}]', '{"\\ud800": 1}'])
def test_half_characters_are_refused(text: str) -> None:
    assert "half a character" in _refused(parse_json, text)
    _refused(parse_yaml, text)


@pytest.mark.parametrize("text", ['a = "\\ud800"', 'a = "\\U0000d800"', 'a = "\ud800"', '"\\ud800" = 1'])
def test_the_toml_parser_refuses_half_characters_itself(text: str) -> None:
    assert "TOML" in _refused(parse_toml, text)


def test_whole_characters_pass() -> None:
    assert parse_json('"\\ud83d\\ude00"', file="x") == "\U0001f600"
    assert parse_yaml('"\\U0001F600"', file="x") == "\U0001f600"


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_whole_numbers_have_64_bits_as_in_toml(kind: str) -> None:
    widest = [-(1 << 63), (1 << 63) - 1]
    assert PARSERS[kind](json.dumps(widest), file="x") == widest
    for beyond in (-(1 << 63) - 1, 1 << 63, 10**400):
        assert "whole number" in _refused(PARSERS[kind], json.dumps({"a": [beyond]}))


def test_a_number_of_more_digits_than_python_prints_is_refused() -> None:
    assert "20000 bits" in _refused(parse_yaml, f"a: 0x{'f' * 5000}")


def test_json_numbers_are_finite() -> None:
    assert "1e999" in _refused(parse_json, "[1e999]")


@pytest.mark.parametrize(
    "value",
    ["!!bool maybe", "!!int abc", "!!int ''", "!!float ''", "!!binary aGk=", "!!set {a}", "!!timestamp 1", "!x 1"],
)
def test_yaml_tags_are_refused(value: str) -> None:
    assert "the YAML tag" in _refused(parse_yaml, f"a: 1\nb: {value}\n")


def test_a_tag_that_says_what_the_value_is_anyway_passes() -> None:
    assert parse_yaml("{a: !!str 5, b: ! x, c: !!map {}, d: !!seq []}", file="x") == {
        "a": "5",
        "b": "x",
        "c": {},
        "d": [],
    }


@pytest.mark.parametrize("text", ["22:22", "1:30", "190:20:30.15", "1" + ":1" * 200_000, "1" + ":1" * 400 + ".5"])
def test_yaml_has_no_numbers_of_base_sixty(text: str) -> None:
    assert parse_yaml(f"- {text}", file="x") == [text]


@pytest.mark.parametrize("text", ["1: a\n1.0: b", "1: a\n0x1: b", "true: a\nyes: b", "a: 1\n'a': 2"])
def test_a_key_that_stands_twice_in_two_spellings_is_refused(text: str) -> None:
    assert "twice" in _refused(parse_yaml, text)


def test_a_key_that_overrides_a_merged_one_does_not_stand_twice() -> None:
    text = "x: {b: &b {<<: {A: 1}, A: 2}}\nc: {<<: *b, A: 3}\n"
    assert parse_yaml(text, file="x") == {"x": {"b": {"A": 2}}, "c": {"A": 3}}


def test_the_key_that_stands_twice_is_found_in_linear_time() -> None:
    names = [f'"{number}": 1' for number in range(60_000)]
    assert "'59999'" in _refused(parse_json, "{" + ", ".join([*names, names[-1]]) + "}")
