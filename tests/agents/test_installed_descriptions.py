"""Descriptions of installed agents: what is wrong with one is told before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from termarena.agents import AgentOptions
from termarena.agents.installed.description import catalog, describe
from termarena.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from pathlib import Path

BAD: list[tuple[str, str]] = [
    ('name = "x"\ninstall = "true"\ncommand = "true"\ncolour = "red"\n', "colour: there is no such field"),
    ('name = "x"\ninstall = "true"\n', "command: Field required"),
    ('name = "X Y"\ninstall = "true"\ncommand = "true"\n', "name: "),
    ('name = "x"\ninstall = "true"\ncommand = "true"\nparser = "tarot"\n', "parser: "),
    ("name = \n", "is no TOML"),
]


@pytest.mark.parametrize(("text", "told"), BAD)
def test_a_description_that_is_none_says_which_field(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=told):
        describe(f"custom:{path}")


@pytest.mark.parametrize("word", ["custom", "custom:", "custom:/no/such/file.toml", "no-such-agent", ""])
def test_a_word_that_names_no_agent(word: str) -> None:
    with pytest.raises(UsageError):
        describe(word)


def test_another_version_is_another_layer() -> None:
    usual = describe("claude-code")
    other = describe("claude-code@1.2.3")
    assert (other.name, other.version) == ("claude-code", "1.2.3")
    assert other.digest != usual.digest
    with pytest.raises(UsageError, match="version"):
        describe("claude-code@$(rm -rf /)")


def test_every_agent_of_the_catalog_is_whole() -> None:
    assert {"claude-code", "mini-swe-agent"} <= catalog().keys()
    for name, description in catalog().items():
        assert name == description.name
        assert description.summary
        assert "$VERSION" in description.install


def _resolved(agent: str, **options: Any) -> None:  # noqa: ANN401 - the fields of AgentOptions
    from termarena.agents.registry import resolve_agent  # noqa: PLC0415 - one helper's

    resolve_agent(agent, task=None, options=AgentOptions(**options))  # type: ignore[arg-type]  # it is not looked at


def test_a_key_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('name = "x"\ninstall = "true"\ncommand = "true"\nneeds_env = ["NO_SUCH_KEY"]\n')
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        _resolved(f"cli:custom:{path}", model="openai:gpt-5")
    with pytest.raises(UsageError, match="NO_SUCH_KEY, which is not set"):
        _resolved(f"cli:custom:{path}", model="openai:x@http://127.0.0.1:1/v1")
    with pytest.raises(UsageError, match="needs a model"):
        _resolved(f"cli:custom:{path}")
    with pytest.raises(NotFound):
        _resolved("cli:no-such-agent", model="openai:x@http://127.0.0.1:1/v1")
