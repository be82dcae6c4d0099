from __future__ import annotations

import ast
import re
from pathlib import Path

import termarena.tasks
from termarena.tasks.lint import RULES

PAGE = Path(__file__).parents[3] / "docs" / "rules.md"
SECTION = re.compile(r"^### `([a-z0-9-]+)`\n\n\*(error|warning|info)\*: (.+)\n", re.MULTILINE)


def _noted_by_loaders() -> set[str]:
    """The ids in every `….note("id", …)` of the task room."""
    found = set()
    for file in Path(termarena.tasks.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr="note"), args=[ast.Constant(value=str(rule)), *_]):
                    found.add(rule)
    return found


def test_the_page_and_the_registry_agree() -> None:
    sections = SECTION.findall(PAGE.read_text())
    assert len(sections) == len({rule for rule, _, _ in sections})
    assert {rule: (severity, meaning) for rule, severity, meaning in sections} == {
        rule.id: (rule.severity, rule.meaning) for rule in RULES.values()
    }


def test_every_section_says_why_and_how_to_mend_it() -> None:
    text = PAGE.read_text()
    bodies = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    short = [body.split("\n", 1)[0] for body in bodies if "Fix: " not in body or len(body.split()) < 25]
    assert short == []
    assert len(bodies) == len(RULES)


def test_the_loaders_use_no_id_that_is_not_a_rule() -> None:
    noted = _noted_by_loaders()
    assert {"unknown-field", "loose-type", "odd-metadata", "schema-version"} <= noted
    assert noted <= RULES.keys()


def test_ids_are_in_kebab_case_and_hints_are_one_line() -> None:
    for name, rule in RULES.items():
        assert name == rule.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)
        assert rule.hint
        assert "\n" not in rule.meaning + rule.hint
