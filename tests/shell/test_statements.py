"""Scripts read as statements: what stands where, and what each writes."""

from __future__ import annotations

from termarena.shell.statements import Script


def _script(text: str) -> Script:
    found = Script.parse(text)
    assert found is not None
    return found


def test_statements_know_their_depth_and_targets() -> None:
    script = _script("for x in a b; do\n  echo $x >> out\ndone\nsort out 2> errors > sorted\n")
    told = [(one.name, one.depth, one.line, one.targets) for one in script.statements]
    assert told == [("", 0, 1, ()), ("echo", 1, 2, ("out",)), ("sort", 0, 4, ("sorted",))]
    assert [one.name for one in script.top] == ["", "sort"]


def test_a_span_is_replaced_by_its_bytes() -> None:
    script = _script("echo 'ü' 7 > x\n")
    assert script.replaced(script.numbers[0], "8") == "echo 'ü' 8 > x\n"
    assert script.until(script.top[0]) == "echo 'ü' 7 > x\n"


def test_what_does_not_parse_is_no_script() -> None:
    assert Script.parse("if then fi ((") is None
    assert Script.parse("(" * 5000 + "ls" + ")" * 5000) is None
