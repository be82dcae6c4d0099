"""Files that go along with a run, and its budget in one purse; a real cluster is in `test_cluster.py`."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from termarena.core.errors import ClusterError, NotFound, UsageError
from termarena.models import Brought, ModelLimits, RunModels
from termarena.models.budget import Amount, Budget
from termarena.models.contract import Message, Request
from termarena.models.errors import BudgetSpent
from termarena.runs.cluster import luggage
from termarena.runs.cluster.luggage import check_out, named_files, take_along
from termarena.runs.cluster.purse import NodeBudget, Purse
from termarena.runs.plan import RunOptions

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.runs.cluster.parcels import Parcel


def itself(parcel: Parcel) -> Parcel:
    return parcel


def test_only_files_of_this_machine_are_meant() -> None:
    options = RunOptions(
        agent="replay:a.cast", model="recorded:run-1", examples=("builtin", "run-1", "run-2"), tools="tools.json"
    )
    assert named_files(options) == ("a.cast", "run-1", "run-2", "tools.json")
    assert named_files(RunOptions(agent="a2a:http://127.0.0.1:1", model="openai:gpt-5")) == ()


def test_files_arrive_under_their_names_and_of_runs_only_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text("echo 1\n")
    (tmp_path / "link.sh").symlink_to("a.sh")
    attempt = tmp_path / "run" / "attempts" / "1"
    attempt.mkdir(parents=True)
    (tmp_path / "run" / "journal.jsonl").write_text("{}\n")
    (attempt / "trajectory.json").write_text("{}")
    (attempt / "state.snapshot").write_text("gigabytes")
    sent = take_along(RunOptions(agent="script:link.sh", examples=("run",)), itself)
    (tmp_path / "node").mkdir()
    places = check_out(sent, tmp_path / "node", itself)
    assert {name: path.name for name, path in places.items()} == {"link.sh": "link.sh", "run": "run"}
    assert places["link.sh"].read_text() == "echo 1\n"
    there = {str(path.relative_to(places["run"])) for path in places["run"].rglob("*") if path.is_file()}
    assert there == {"journal.jsonl", "attempts/1/trajectory.json"}


def test_what_is_not_there_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match=r"nothing is at no\.sh"):
        take_along(RunOptions(agent="script:no.sh"), itself)
    monkeypatch.setattr(luggage, "LARGEST_BYTES", 3)
    (tmp_path / "a.sh").write_text("echo 1\n")
    with pytest.raises(UsageError, match=r"more than the .* that are sent to the nodes"):
        take_along(RunOptions(agent=f"script:{tmp_path / 'a.sh'}"), itself)


class Gone(Exception):
    pass


class Ray:
    """Calls in place of messages."""

    exceptions = SimpleNamespace(RayError=Gone)

    @staticmethod
    def get(answer: Any) -> Any:  # noqa: ANN401 - as Ray's
        return answer


class Handle:
    def __init__(self, purse: Purse) -> None:
        self._purse = purse

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=getattr(self._purse, name))


def seats(purse: Purse, *trials: str) -> list[Budget]:
    return [Budget("trial", parent=NodeBudget("run", purse=Handle(purse), ray=Ray(), trial=trial)) for trial in trials]


def test_trials_on_two_nodes_do_not_spend_the_same_tokens() -> None:
    purse = Purse(ModelLimits(run_tokens=100), Amount(tokens=10))
    one, two = seats(purse, "one", "two")
    with one.reserve(Amount(tokens=60)):
        with (
            pytest.raises(BudgetSpent, match="the run's budget of 100 tokens is spent"),
            two.reserve(Amount(tokens=40)),
        ):
            pass
        one.spend(Amount(tokens=20))
    with two.reserve(Amount(tokens=40)):
        two.check()


async def test_an_answer_is_paid_for_before_what_was_set_aside_for_it_is_free_again(tmp_path: Path) -> None:
    asked: list[str] = []

    class Watched(Handle):
        def __getattr__(self, name: str) -> SimpleNamespace:
            asked.append(name)
            return super().__getattr__(name)

    (tmp_path / "model.json").write_text(json.dumps({"replies": [{"content": "Done."}]}))
    purse = Watched(Purse(ModelLimits(run_tokens=10_000), Amount()))
    models = RunModels(brought=Brought(budget=NodeBudget("run", purse=purse, ray=Ray(), trial="one")))
    model = models.open(f"scripted:{tmp_path / 'model.json'}")
    await model.complete(Request((Message("user", "Go."),)), timeout_s=60)
    assert asked == ["check", "reserve", "spend", "release"]


def test_what_a_lost_trial_had_set_aside_is_free_again() -> None:
    purse = Purse(ModelLimits(run_usd=1.0), Amount())
    assert purse.reserve("lost", Amount(usd=0.9)) is None
    assert purse.reserve("next", Amount(usd=0.5)) is not None
    purse.release_all("lost")
    assert purse.reserve("next", Amount(usd=0.5)) is None
    purse.release("lost", Amount(usd=0.9))
    assert purse.check(Amount(usd=0.4)) is None


def test_a_purse_that_is_gone_is_the_clusters_fault() -> None:
    def gone(_: object) -> None:
        raise Gone

    lost = NodeBudget("run", purse=SimpleNamespace(check=SimpleNamespace(remote=gone)), ray=Ray(), trial="one")
    with pytest.raises(ClusterError, match="keeps the run's budget is lost"):
        lost.check()
