"""Grading again from captured states: the same verdict for the same tests, and nothing lost on the way."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.tasks import LOOKS_FOR_ONE, Made, make_task
from termarena.core.errors import CapabilityMissing, DigestMismatch, ImageError, RunNotWritable
from termarena.core.run_folder import RunFolder
from termarena.runs.changed_paths import read_changes
from termarena.runs.config_lock import RunFacts
from termarena.runs.judging import Judge
from termarena.runs.plan import RunOptions
from termarena.runs.recording import read_result
from termarena.runs.regrading import Regraded, RegradeWish, regrade
from termarena.runs.running import execute, start_run
from termarena.runs.trials import Trials
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

    from termarena.core.run_folder import AttemptFolder
    from termarena.runs.judging import Case

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.asyncio]


@dataclass(frozen=True)
class Bench:
    """One trial of one task, carried out as a run and graded again."""

    path: Path
    home: Path

    @property
    def attempt(self) -> AttemptFolder:
        return RunFolder(self.path / "run").attempt("task", 1)

    async def run(self, agent: str = "oracle", made: Made | None = None) -> None:
        task = make_task(self.path / "task", made)
        options = RunOptions(agent=agent, driver="namespace", retries=0)
        facts = RunFacts(agent_name=agent, agent_version="", driver="namespace", dataset="one")
        with start_run(options, [task], RunFolder(self.path / "run"), facts) as run:
            await execute(run, Trials(options, home=self.home, run_id=run.folder.id))

    async def again(self, tests: str | None = None) -> Regraded:
        folder = self.path / "tests"
        if tests is not None:
            folder.mkdir()
            (folder / "test.sh").write_text(tests)
        wish = RegradeWish(tests=folder if tests is not None else None)
        (found,) = [one async for one in regrade(RunFolder(self.path / "run"), wish, home=self.home)]
        return found


@pytest.fixture
def bench(tmp_path: Path, home: Path) -> Bench:
    return Bench(tmp_path, home)


async def test_tests_that_the_agent_silenced_are_its_failure_the_second_time_too(bench: Bench) -> None:
    kills = "printf '#!/bin/sh\\nkill -9 $PPID\\n' >/app/program; chmod +x /app/program\n"
    tests = "#!/bin/sh\n[ -x /app/program ] && /app/program\necho 0 >/logs/verifier/reward.txt\n"
    await bench.run("oracle", Made(solution=kills, tests=tests))
    found = await bench.again()
    assert (found.before, found.after) == ("unsolved", "unsolved")


async def test_tests_that_have_changed_since_are_not_taken_without_a_word(bench: Bench) -> None:
    await bench.run()
    make_task(bench.path / "task", Made(tests=LOOKS_FOR_ONE.replace("qx 1", "qx 2")))
    with pytest.raises(DigestMismatch, match="task task has changed") as caught:
        await bench.again()
    assert "--tests" in str(caught.value.hint)
    assert (await bench.again(LOOKS_FOR_ONE)).after == "solved"


async def test_no_secret_reaches_what_the_second_tests_write(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "correct-horse-battery"  # noqa: S105 - an example
    monkeypatch.setenv("EXAMPLE_API_KEY", secret)
    await bench.run()
    says = f"#!/bin/sh\necho {secret}\necho {secret} >/logs/verifier/said\n"
    found = await bench.again(says + LOOKS_FOR_ONE.removeprefix("#!/bin/sh\n"))
    assert found.after == "solved"
    for path in (bench.attempt.test_output, bench.attempt.logs / "verifier/said"):
        assert path.read_text() == "[secret EXAMPLE_API_KEY]\n"


REPLACES_A_TOOL = "touch /app/1 /app/2 /app/3; echo 1 >/app/one.txt; printf '#!/bin/sh\\nexit 0\\n' >/usr/bin/grep\n"


async def test_tampering_behind_more_paths_than_are_listed_is_found_the_second_time_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termarena.runs.changed_paths.LARGEST_CHANGES", 2)
    await bench.run("oracle", Made(solution=REPLACES_A_TOOL))
    assert read_result(bench.attempt).failure_mode == "TAMPERED"
    assert (await bench.again()).after == "unsolved"
    again = read_result(bench.attempt)
    assert again.regraded_at is not None
    assert again.failure_mode == "TAMPERED"


async def test_paths_too_long_for_one_record_are_all_read_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.runs.changed_paths.LARGEST_PATHS", 5)
    await bench.run("oracle", Made(solution="touch /app/$(printf '\\377')\n"))
    assert [change.path for change in read_changes(bench.attempt).changes if change.kind == "file"] == ["/app/\udcff"]


async def test_a_list_with_paths_missing_is_not_taken_for_the_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termarena.runs.changed_paths.LARGEST_CHANGES", 2)
    await bench.run("oracle", Made(solution=REPLACES_A_TOOL))
    bench.attempt.further_changes.unlink()
    before = _files(bench.attempt)
    found = await bench.again()
    assert found.after is None
    assert "found 2 paths; expected all" in found.why
    assert _files(bench.attempt) == before


async def test_a_state_that_cannot_be_loaded_leaves_the_first_grading_where_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.run()
    before = _files(bench.attempt)

    def gone(*_: object) -> NoReturn:
        raise ImageError("debian", "it is gone")

    monkeypatch.setattr(NamespaceDriver, "load", gone)
    found = await bench.again()
    assert (found.after, found.why) == (None, "debian: it is gone")
    assert _files(bench.attempt) == before


async def test_a_grading_that_breaks_off_leaves_the_first_one_where_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.run()
    before = _files(bench.attempt)

    async def breaks_off(_: Judge, case: Case) -> NoReturn:
        (case.logs / "verifier").mkdir(parents=True)
        (case.logs / "verifier/half").touch()
        case.output.write_text("half")
        raise CapabilityMissing("a service", driver="namespace", why="it has none")

    monkeypatch.setattr(Judge, "judge", breaks_off)
    assert (await bench.again()).after is None
    assert _files(bench.attempt) == before


async def test_a_full_disk_is_told_with_what_to_do_and_nothing_is_half_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.run()
    before = _files(bench.attempt)

    async def finds_no_room(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "test_output.txt")

    monkeypatch.setattr(Judge, "judge", finds_no_room)
    with pytest.raises(RunNotWritable, match=r"test_output\.txt: No space left") as caught:
        await bench.again()
    assert "termarena regrade" in str(caught.value.hint)
    assert _files(bench.attempt) == before


async def test_an_attempt_whose_records_are_damaged_does_not_hold_up_the_others(bench: Bench) -> None:
    await bench.run()
    bench.attempt.changes.write_text("{")
    found = await bench.again()
    assert found.after is None
    assert "changes.json" in found.why
    bench.attempt.result.write_text("{")
    assert "result.json" in (await bench.again()).why


def _files(folder: AttemptFolder) -> dict[str, bytes]:
    found = {str(path.relative_to(folder.path)): path for path in folder.path.rglob("*") if path.is_file()}
    assert "test_output.txt" in found
    return {name: path.read_bytes() for name, path in found.items()}
