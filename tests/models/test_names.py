"""The words of `--model`, keys, prices, scripts: what is known before anything is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from termarena.core.errors import AgentError, NotFound, UsageError
from termarena.models import Brought, Completion, Message, MeteredModel, ModelLimits, Request, RunModels, TokenUsage
from termarena.models.budget import Amount, Budget
from termarena.models.errors import BudgetSpent, MissingKey
from termarena.models.lanes import Lane
from termarena.models.names import PROVIDERS, key_for, parse_name
from termarena.models.prices import price_table
from termarena.models.scripted import read_script

ASKED = Request((Message("user", "Write 1."),))


def scripted(path: Path, **script: object) -> str:
    path.write_text(json.dumps(script))
    return f"scripted:{path}"


def test_a_word_is_a_provider_a_model_and_perhaps_an_address() -> None:
    name = parse_name("ollama:qwen3:8b@http://127.0.0.1:9/v1/")
    assert (name.provider.name, name.model, name.url) == ("ollama", "qwen3:8b", "http://127.0.0.1:9/v1")
    assert parse_name("openrouter:meta/llama@free").model == "meta/llama@free"
    assert parse_name("openai:gpt-5").url == "https://api.openai.com/v1"


@pytest.mark.parametrize("word", ["openia:gpt-5", "gpt-5", "", "OpenAI:gpt-5"])
def test_an_unknown_provider_is_told_with_the_known_ones(word: str) -> None:
    with pytest.raises(
        NotFound, match=r"no provider of models is called .*; there is: openai, anthropic, google, openrouter"
    ):
        parse_name(word)


@pytest.mark.parametrize(
    "word",
    [
        "openai",
        "openai:",
        "openai:@http://x/v1",
        "openai:m@http://",
        "scripted:",
        "openai:m@http://[::1",
        "openai:m@http://h:x/",
        "vllm:m@http://a b/v1",
    ],
)
def test_a_word_without_a_model_or_with_a_bad_address(word: str) -> None:
    with pytest.raises(UsageError):
        parse_name(word)


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="user or a password") as raised:
        parse_name("openai:m@http://me:hunter22@host/v1")
    assert "hunter22" not in str(raised.value)


def test_a_missing_key_is_told_before_anything_starts_and_names_the_variable() -> None:
    with_key = [provider for provider in PROVIDERS.values() if provider.url and provider.needs_key]
    assert "openai" in {provider.name for provider in with_key}
    for provider in with_key:
        with pytest.raises(MissingKey) as raised:
            RunModels(environ={}).check(f"{provider.name}:m")
        assert raised.value.variable in raised.value.message
    assert key_for(parse_name("groq:m"), {"GROQ_API_KEY": "gsk"}).variable == "GROQ_API_KEY"
    assert "gsk" not in repr(key_for(parse_name("groq:m"), {"GROQ_API_KEY": "gsk"}))


def test_what_an_answer_costs_with_its_cache() -> None:
    table = price_table()
    price = table.find("anthropic", "claude-haiku-4-5-20251001")
    assert price is not None
    usage = TokenUsage(1_000_000, 100_000, cached_tokens=400_000, cache_write_tokens=100_000)
    assert price.cost_of(usage) == pytest.approx(0.5 * 1 + 0.4 * 0.1 + 0.1 * 1.25 + 0.1 * 5)
    long = table.find("google", "gemini-2.5-pro")
    assert long is not None
    assert long.cost_of(TokenUsage(300_000, 0)) == pytest.approx(0.3 * 2.5)
    assert (len(table.digest), table.as_of[:3]) == (16, "202")


def test_an_unknown_price_is_unknown_and_never_zero() -> None:
    assert price_table().find("openai", "gpt-99") is None
    price = price_table().find("openai", "gpt-5")
    assert price is not None
    assert price.cost_of(TokenUsage(None, 5)) is None
    models = RunModels(environ={})
    assert models.price_of(parse_name("openai:gpt-5@http://127.0.0.1:9/v1")) is None


def test_a_budget_in_money_needs_a_price() -> None:
    models = RunModels(ModelLimits(trial_usd=1), environ={"OPENAI_API_KEY": "k"})
    assert models.check("openai:gpt-5").model == "gpt-5"
    with pytest.raises(UsageError, match=r"what openai:gpt-99 costs is not known"):
        models.check("openai:gpt-99")


def test_a_run_whose_budget_is_spent_opens_no_model() -> None:
    models = RunModels(ModelLimits(run_usd=2), environ={"OPENAI_API_KEY": "k"}, brought=Brought(spent=Amount(usd=2.01)))
    with pytest.raises(BudgetSpent, match=r"the run's budget of \$2 is spent"):
        models.check("openai:gpt-5")


def test_what_is_reserved_cannot_be_spent_twice() -> None:
    run = Budget("run", usd=1.0)
    first, second = Budget("trial", parent=run), Budget("trial", parent=run)
    with first.reserve(Amount(usd=0.6)):
        with pytest.raises(BudgetSpent), second.reserve(Amount(usd=0.6)):
            pass
        first.spend(Amount(usd=0.1))
    with second.reserve(Amount(usd=0.6)):
        assert run.spent_usd == pytest.approx(0.1)


async def test_a_script_answers_each_attempt_from_its_beginning(tmp_path: Path) -> None:
    word = scripted(
        tmp_path / "s.json",
        conversations=[{"when": "Write 1", "replies": [{"tool_calls": [{"name": "X", "arguments": "{half"}]}]}],
        replies=[{"content": "other", "input_tokens": 5, "output_tokens": 2, "cost_usd": 0.25}],
    )
    models = RunModels(ModelLimits(run_usd=None), environ={})
    for _ in range(2):
        model = models.open(word)
        answer = await model.complete(ASKED, timeout_s=60)
        assert (answer.finish, answer.message.tool_calls[0].arguments) == ("tool_calls", "{half")
        assert (model.meter.input_tokens, model.meter.cost_usd) == (None, None)
        with pytest.raises(AgentError, match="no reply after the 1"):
            await model.complete(ASKED, timeout_s=60)
    other = models.open(word)
    await other.complete(Request((Message("user", "Hm"),)), timeout_s=60)
    assert (other.meter.input_tokens, other.meter.cost_usd) == (5, 0.25)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "Invalid JSON"),
        ('{"replys": []}', "replys"),
        ('{"conversations": [{"when": "(", "replies": []}]}', "no regular expression"),
        ('{"replies": [{"finish": "done"}]}', "finish"),
    ],
)
def test_a_file_that_is_no_script_says_where(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(UsageError, match=said):
        RunModels(environ={}).check(f"scripted:{tmp_path / 's.json'}")
    with pytest.raises(NotFound, match="no script of a model"):
        RunModels(environ={}).check(f"scripted:{tmp_path / 'none.json'}")


async def test_tokens_per_minute_are_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr("termarena.models.lanes.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("termarena.models.lanes.asyncio.sleep", sleep)
    lane = Lane(tokens_per_minute=600)
    for _ in range(3):
        async with lane.place(300):
            pass
    assert sum(waited) == pytest.approx(30)
    lane.settle(estimated=300, used=900)
    async with lane.place(10):
        pass
    assert sum(waited) == pytest.approx(30 + 61)
    async with lane.place(100_000):  # more than a minute's room: it waits for a full one
        pass
    assert sum(waited) == pytest.approx(30 + 61 + 60)


def test_the_page_shows_a_script_that_loads_and_names_every_provider(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    shown = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    (tmp_path / "s.json").write_text(shown[1])
    assert len(read_script(tmp_path / "s.json").conversations[0].replies) == 2
    assert {f"`{name}:" for name in PROVIDERS} <= set(re.findall(r"`\w+:", page))
    for provider in PROVIDERS.values():
        assert all(f"`{variable}`" in page for variable in provider.variables)


class OneAnswer:
    """A model that says one thing."""

    name = "openai:gpt-5"
    context_tokens = None

    async def complete(self, request: Request, **_: object) -> Completion:
        del request
        return Completion(Message("assistant", "1"), "stop", TokenUsage(1_000_000, 100_000, 200_000))


async def test_a_priced_answer_says_by_which_table() -> None:
    model = MeteredModel(OneAnswer(), price_table().find("openai", "gpt-5"), Budget("trial", usd=5))
    answer = await model.complete(ASKED, timeout_s=60)
    assert answer.cost_usd == pytest.approx(0.8 * 1.25 + 0.2 * 0.125 + 0.1 * 10)
    assert (answer.cost_source, answer.extra["prices"]) == (
        "table",
        f"{price_table().as_of} {price_table().digest}",
    )
    assert model.budget.spent_usd == model.meter.cost_usd == answer.cost_usd
    assert model.context_tokens == 400_000
