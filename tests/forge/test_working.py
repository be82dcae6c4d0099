"""Whole orders: what the ledger makes of them. The making itself is tried elsewhere; here it takes no time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.sessions import COUNTING, SORTING
from termarena.core.errors import NotFound, RecordingRefused
from termarena.forge.intake import Unreadable, items_in
from termarena.forge.ledger import Ledger, Outcome
from termarena.forge.making import Making, MakingConfig
from termarena.forge.sharding import Where
from termarena.forge.working import Order, work
from termarena.sandbox.drivers import open_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from termarena.forge.casts import Loaded
    from termarena.forge.transcript import Transcript

STRICT = MakingConfig(least_fidelity=0.99)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every recording becomes a task at once, unless the settings are strict; what was made, in order."""
    titles: list[str] = []

    async def make(making: Making, out: Path) -> Path:
        titles.append(making.transcript.title)
        making.synthesize()
        assert making.draft is not None
        if making.config == STRICT:
            raise RecordingRefused("reproduce", "not like it")
        folder = out / making.draft.id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "task.toml").write_text(making.transcript.title)
        return folder

    monkeypatch.setattr(Making, "make", make)
    return titles


async def run(
    tmp_path: Path,
    *recordings: Transcript | Unreadable,
    out: str = "tasks",
    config: MakingConfig | None = None,
    on: Callable[[Outcome, bool], None] | None = None,
) -> list[tuple[Outcome, bool]]:
    told: list[tuple[Outcome, bool]] = []

    def on_outcome(outcome: Outcome, was_known: bool) -> None:  # noqa: FBT001 - the library's callback
        told.append((outcome, was_known))
        if on is not None:
            on(outcome, was_known)

    driver = open_driver("namespace", home=tmp_path / "home")
    order = Order(iter(recordings), tmp_path / out, config or MakingConfig())
    try:
        with Ledger(tmp_path / "forge") as ledger:
            await work(order, ledger, driver, on_outcome)
    finally:
        await driver.aclose()
    return told


def tasks(tmp_path: Path, out: str = "tasks") -> list[str]:
    folder = tmp_path / out
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.usefixtures("made")
async def test_another_folder_gets_what_is_known_from_the_first_and_a_takedown_finds_both(tmp_path: Path) -> None:
    await run(tmp_path, COUNTING, out="a")
    ((outcome, was_known),) = await run(tmp_path, COUNTING, out="b")
    assert was_known
    assert tasks(tmp_path, "b") == tasks(tmp_path, "a") == [outcome.task_id]
    assert outcome.folder == str(tmp_path / "b" / (outcome.task_id or ""))
    with Ledger(tmp_path / "forge") as ledger:
        ledger.take_down(ledger.find(COUNTING.source))
    assert tasks(tmp_path, "b") == tasks(tmp_path, "a") == []


async def test_stricter_settings_take_a_task_away_and_the_old_ones_bring_it_back(
    made: list[str], tmp_path: Path
) -> None:
    await run(tmp_path, COUNTING, SORTING)
    assert len(tasks(tmp_path)) == 2
    await run(tmp_path, COUNTING, SORTING, config=STRICT)
    assert tasks(tmp_path) == []
    await run(tmp_path, COUNTING, SORTING)
    assert len(tasks(tmp_path)) == 2
    told = await run(tmp_path, COUNTING, SORTING, config=STRICT)
    assert [(outcome.state, was_known) for outcome, was_known in told] == [("refused", True)] * 2
    assert tasks(tmp_path) == []
    assert len(made) == 6
    with Ledger(tmp_path / "forge") as ledger:
        assert {one.state for one in ledger.latest()} == {"refused"}


async def test_a_recording_that_is_taken_down_while_it_is_made_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, made: list[str], tmp_path: Path
) -> None:
    make = Making.make

    async def make_slowly(making: Making, out: Path) -> Path:
        folder = await make(making, out)
        with Ledger(tmp_path / "forge") as other:
            other.block(making.transcript.digest, making.transcript.source)
        return folder

    monkeypatch.setattr(Making, "make", make_slowly)
    ((outcome, _),) = await run(tmp_path, COUNTING)
    assert (outcome.state, outcome.gate, outcome.folder) == ("refused", "takedown", None)
    assert made == [COUNTING.title]
    assert tasks(tmp_path) == []
    with Ledger(tmp_path / "forge") as ledger:
        assert ledger.latest() == []
        assert not any(path.is_file() for path in (tmp_path / "forge" / "objects").rglob("*"))
    ((again, _),) = await run(tmp_path, COUNTING)
    assert again.gate == "takedown"
    assert made == [COUNTING.title]


async def test_a_recording_like_one_of_an_earlier_run_is_no_news_until_that_is_gone(
    made: list[str], tmp_path: Path
) -> None:
    like = SORTING.model_copy(update={"digest": "sha256:" + "1" * 64, "source": "again.cast", "title": "Sort again"})
    await run(tmp_path, SORTING)
    ((outcome, was_known),) = await run(tmp_path, like)
    assert (outcome.gate, was_known) == ("duplicates", False)
    assert outcome.reason == "100 % of its commands are those of sort-the-names.cast, of which a task was made"
    assert made == [SORTING.title]
    with Ledger(tmp_path / "forge") as ledger:
        ledger.take_down(ledger.find(SORTING.source))
    ((outcome, _),) = await run(tmp_path, like)
    assert outcome.state == "admitted"


async def test_the_same_recording_twice_in_an_order_is_made_once(made: list[str], tmp_path: Path) -> None:
    twice = COUNTING.model_copy(update={"source": f"copy/{COUNTING.source}"})
    told = await run(tmp_path, COUNTING, twice)
    assert [(outcome.state, was_known) for outcome, was_known in told] == [("admitted", False), ("admitted", True)]
    assert made == [COUNTING.title]


@pytest.mark.usefixtures("made")
async def test_what_is_no_recording_is_refused_at_the_first_gate_and_counted(tmp_path: Path) -> None:
    (tmp_path / "broken.cast").write_bytes(b"")
    for was_known in (False, True):
        ((outcome, known),) = await run(tmp_path, *items_in([tmp_path / "broken.cast"]))
        assert (outcome.state, outcome.gate, known) == ("refused", "read", was_known)
        assert "it is empty" in outcome.reason
    with Ledger(tmp_path / "forge") as ledger:
        assert ledger.last_run() is not None
        assert (ledger.last_run() or ())[:2] == (1, 1)
        assert ledger.evidence(outcome.evidence)["gate"] == "read"


@pytest.mark.usefixtures("made")
async def test_what_is_at_an_address_that_was_taken_down_is_not_made_whatever_its_bytes(tmp_path: Path) -> None:
    address = "https://casts.example/a/1"
    with Ledger(tmp_path / "forge") as ledger:
        ledger.block("sha256:00", address)
    ((outcome, _),) = await run(tmp_path, COUNTING.model_copy(update={"source": address}))
    assert (outcome.state, outcome.gate) == ("refused", "takedown")


@pytest.mark.usefixtures("made")
async def test_halves_of_characters_in_headers_and_names_stop_no_order(tmp_path: Path) -> None:
    """A header may hold a lone surrogate, a file's name bytes that are no UTF-8; the ledger takes neither."""
    told = b'"title": "\\ud800", "command": "ls \\udfff", "env": {"SHELL": "\\ud800"}'
    head = b'{"version": 2, "width": 80, "height": 24, ' + told + b"}"
    odd, empty = (tmp_path / os.fsdecode(name) for name in (b"odd\xff.cast", b"emptyodd\xff.cast"))
    odd.write_bytes(head + b'\n[0.1, "o", "\\ud800 x\\r\\n"]\n')
    empty.write_bytes(b"")
    first, second = [outcome for outcome, _ in await run(tmp_path, *items_in([odd, empty]))]
    assert (first.state, first.source) == ("refused", f"{tmp_path}/odd?.cast")
    assert (second.gate, second.source) == ("read", f"{tmp_path}/emptyodd?.cast")


@pytest.mark.usefixtures("made")
async def test_a_recording_that_its_reader_breaks_at_is_refused_and_stops_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.cast", "b.cast"):
        (tmp_path / name).write_bytes(b"$ ls\n")

    def broken(loaded: Loaded) -> Transcript:
        if loaded.path.endswith("a.cast"):
            raise RecursionError("too deep")
        return COUNTING

    monkeypatch.setattr("termarena.forge.intake.read_loaded", broken)
    items = items_in([tmp_path / "a.cast", tmp_path / "b.cast"], Where(jobs=1))
    first, second = [outcome for outcome, _ in await run(tmp_path, *items)]
    assert (first.gate, first.reason) == ("read", "it could not be read: RecursionError: too deep")
    assert second.state == "admitted"


@pytest.mark.usefixtures("made")
async def test_a_folder_that_cannot_be_read_ends_the_order_and_keeps_what_was_made(tmp_path: Path) -> None:
    def recordings() -> Iterator[Transcript]:
        yield COUNTING
        raise NotFound("no such folder")

    driver = open_driver("namespace", home=tmp_path / "home")
    with Ledger(tmp_path / "forge") as ledger:
        with pytest.raises(NotFound, match="no such folder"):
            await work(Order(recordings(), tmp_path / "tasks", MakingConfig()), ledger, driver, lambda *_: None)
        assert [one.state for one in ledger.latest()] == ["admitted"]
    await driver.aclose()
