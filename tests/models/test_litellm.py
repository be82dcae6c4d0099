"""`--model litellm:…`: what its package is asked, and what its answers and errors mean.

Most tests put a module of its interface in its place, which knows no network. One installs the package itself.
"""

from __future__ import annotations

import socket
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from support.model_server import ModelServer, said
from support.own_venv import OwnVenv
from support.tasks import make_task
from termarena.core.errors import MissingExtra, NotFound, UsageError
from termarena.models import Message, ModelLimits, Request, RunModels, ToolSpec
from termarena.models.errors import (
    ContextOverflow,
    KeyRefused,
    MissingKey,
    ModelRejected,
    ModelUnavailable,
    UnusableReply,
)
from termarena.models.http import Patience
from termarena.models.recorded import read_recordings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from termarena.models.contract import Exchange

ASKED = Request((Message("user", "Say hello."),), tools=(ToolSpec("EXECUTE", "Run it.", {"type": "object"}),))
QUICK = Patience(attempts=3, first_wait_s=0.001)
KINDS = (
    "AuthenticationError",
    "PermissionDeniedError",
    "RateLimitError",
    "Timeout",
    "APIConnectionError",
    "InternalServerError",
    "ServiceUnavailableError",
    "BadRequestError",
    "NotFoundError",
    "APIError",
)


class Failure(Exception):
    status_code: int | None = None
    response: Any = None


def _kinds() -> SimpleNamespace:
    made = {name: type(name, (Failure,), {}) for name in KINDS}
    for name in ("ContextWindowExceededError", "ContentPolicyViolationError"):
        made[name] = type(name, (made["BadRequestError"],), {})
    return SimpleNamespace(**made)


class Answer:
    def __init__(self, document: dict[str, Any], cost: float | None) -> None:
        self._document = document
        self._hidden_params = {"response_cost": cost}

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return self._document


class StandIn(ModuleType):
    """Knows `toys/toy` at a price, `toys/other` at none, and wants TOY_KEY for both."""

    def __init__(self) -> None:
        super().__init__("litellm")
        self.exceptions = _kinds()
        self.asked: list[dict[str, Any]] = []
        self.answers: list[Any] = []
        self.has_key = True
        self.is_closed = False

    def get_llm_provider(self, model: str) -> tuple[str, str, None, None]:
        if not model.startswith("toys/"):
            raise self.exceptions.BadRequestError("LLM Provider NOT provided")
        return model, "toys", None, None

    def validate_environment(self, model: str) -> dict[str, Any]:
        assert model.startswith("toys/")
        return {"keys_in_environment": self.has_key, "missing_keys": [] if self.has_key else ["TOY_KEY"]}

    def get_model_info(self, model: str) -> Mapping[str, Any]:
        if model != "toys/toy":
            raise Exception("This model isn't mapped yet")  # noqa: TRY002 - what the package does
        return {"max_input_tokens": 4096, "input_cost_per_token": 1e-6}

    async def acompletion(self, **given: Any) -> Answer:  # noqa: ANN401 - as the package takes it
        self.asked.append(given)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer, 0.25 if given["model"] == "toys/toy" else None)

    async def close_litellm_async_clients(self) -> None:
        self.is_closed = True


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn()
    monkeypatch.setitem(sys.modules, "litellm", made)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "1.0")
    return made


def answer(**usage: int) -> dict[str, Any]:
    body: dict[str, Any] = said("hello", calls=[("EXECUTE", {"command": "true"})]).body
    body["usage"].update(usage)
    return body


async def test_an_answer_comes_with_its_usage_cost_and_finish(package: StandIn) -> None:
    package.answers = [answer(cache_creation_input_tokens=7)]
    models = RunModels(ModelLimits(trial_usd=1.0))
    model = models.open("litellm:toys/toy")
    got = await model.complete(ASKED, timeout_s=60)
    assert (got.message.content, got.message.tool_calls[0].name, got.finish) == ("hello", "EXECUTE", "tool_calls")
    usage = got.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens) == (100, 10, 40, 7)
    assert (got.cost_usd, got.cost_source, got.extra["prices"]) == (0.25, "table", "litellm 1.0")
    assert (model.meter.cost_usd, model.budget.spent_usd, model.context_tokens) == (0.25, 0.25, 4096)
    (asked,) = package.asked
    assert (asked["model"], asked["num_retries"], asked["max_retries"]) == ("toys/toy", 0, 0)
    assert asked["tools"][0]["function"]["name"] == "EXECUTE"
    await models.aclose()
    assert package.is_closed


async def test_an_unknown_price_is_no_price(package: StandIn) -> None:
    package.answers = [answer()]
    got = await RunModels().open("litellm:toys/other").complete(ASKED, timeout_s=60)
    assert (got.cost_usd, got.cost_source) == (None, None)
    with pytest.raises(UsageError, match="what litellm:toys/other costs is not known"):
        RunModels(ModelLimits(trial_usd=1.0)).check("litellm:toys/other")


async def test_an_endpoint_of_ones_own_needs_no_key_and_has_no_price(package: StandIn) -> None:
    package.has_key = False
    package.answers = [answer()]
    models = RunModels()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        await models.probe(f"litellm:toys/toy@{url}")
        got = await models.open(f"litellm:toys/toy@{url}").complete(ASKED, timeout_s=60)
    assert got.cost_usd is None
    assert package.asked[0]["api_base"] == url
    with pytest.raises(ModelUnavailable, match="no connection"):
        await models.probe(f"litellm:toys/toy@{url}")


def test_what_is_wrong_is_told_before_anything_starts(package: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="litellm knows no provider of the model nobody/x"):
        RunModels().check("litellm:nobody/x")
    package.has_key = False
    with pytest.raises(MissingKey, match="models of litellm:toys need a key, and TOY_KEY is not set"):
        RunModels().check("litellm:toys/toy")
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(MissingExtra, match="litellm"):
        RunModels().check("litellm:toys/toy")


@pytest.mark.parametrize(
    ("kind", "status", "error", "asked"),
    [
        ("ContextWindowExceededError", 400, ContextOverflow, 1),
        ("AuthenticationError", 401, KeyRefused, 1),
        ("PermissionDeniedError", 403, KeyRefused, 1),
        ("NotFoundError", 404, ModelRejected, 1),
        ("BadRequestError", 400, ModelRejected, 1),
        ("RateLimitError", 429, ModelUnavailable, 3),
        ("Timeout", 408, ModelUnavailable, 3),
        ("APIConnectionError", 500, ModelUnavailable, 3),
        ("APIError", 502, ModelUnavailable, 3),
        ("APIError", None, ModelUnavailable, 1),
    ],
)
async def test_each_error_has_its_meaning(
    package: StandIn, kind: str, status: int | None, error: type[Exception], asked: int
) -> None:
    raised = getattr(package.exceptions, kind)("something")
    raised.status_code = status
    package.answers = [raised]
    with pytest.raises(error) as caught:
        await RunModels(patience=QUICK).open("litellm:toys/toy").complete(ASKED, timeout_s=60)
    assert type(caught.value) is error
    assert len(package.asked) == asked


async def test_a_refusal_is_an_answer_and_what_passes_is_asked_again(package: StandIn) -> None:
    limited = package.exceptions.RateLimitError("slow down")
    limited.response = SimpleNamespace(headers={"retry-after": "0"})
    package.answers = [limited, package.exceptions.ContentPolicyViolationError("not that")]
    got = await RunModels(patience=QUICK).open("litellm:toys/toy").complete(ASKED, timeout_s=60)
    assert (got.finish, got.message.content, got.attempts) == ("refused", "not that", 2)


async def test_an_answer_that_is_none_has_a_name(package: StandIn) -> None:
    package.answers = [{"choices": []}]
    with pytest.raises(UnusableReply, match="no choice"):
        await RunModels().open("litellm:toys/toy").complete(ASKED, timeout_s=60)


async def test_exchanges_are_such_as_can_be_played_again(package: StandIn) -> None:
    package.answers = [answer()]
    seen: list[Exchange] = []
    observe: Callable[[Exchange], None] = seen.append
    await RunModels().open("litellm:toys/toy").complete(ASKED, timeout_s=60, observe=observe)
    assert (seen[0].url, seen[0].status) == ("litellm://toys/toy/chat/completions", 200)
    assert "api_key" not in seen[0].request  # type: ignore[operator] # an object


@pytest.mark.soak
@pytest.mark.needs("user-namespaces")
def test_the_package_itself_drives_a_trial(tmp_path: Path) -> None:
    """Installs it, with its sixty packages."""
    venv = OwnVenv(tmp_path, extras="models,litellm")
    make_task(tmp_path / "one")
    turns = [
        said("", calls=[("EXECUTE", {"command": "echo 1 >/app/one.txt"})]),
        said("", calls=[("TASK_COMPLETE", {})]),
    ]
    with ModelServer(*turns) as server:
        word = f"litellm:openai/toy@{server.url}"
        done = venv.termarena("run", "--path", "one", "--agent", "tools", "--model", word, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "1 solved" in done.stdout
    assert len(read_recordings(tmp_path / "run").conversations[0]) == 2
    refused = venv.termarena("run", "--path", "one", "--agent", "tools", "--model", "litellm:mistral/x", "--out", "no")
    assert (refused.returncode, "MISTRAL_API_KEY is not set" in refused.stderr) == (2, True)
