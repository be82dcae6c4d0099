"""Reading trajectories: agents whose flaws are known, on real sandboxes, and trajectories of every shape."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from running import termarena
from support.flawed_agents import make_corpus
from support.made_runs import made_run
from termarena.analysis import as_data, as_html, as_markdown, read_runs
from termarena.core.run_folder import RunFolder
from termarena.core.trajectory import Step, Trajectory, TrajectoryAgent, write_trajectory
from termarena.runs.config_lock import Origin
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from termarena.analysis import Reading, TrialReading

HOSTILE = "<script>alert(1)</script> | `x` \x1b[2J **bold**\n# not a heading"


# Agents whose flaws are known.


def analysis_of(folder: Path, numbers: range) -> Iterable[tuple[str, set[str]]]:
    """The kind of every trial, and the names of the flaws that were found in it."""
    kinds = make_corpus(folder, numbers)
    ran = termarena(
        *("run", "--path", "tasks", "--agent", "tools", "--model", "scripted:model.json"),
        *("--driver", "namespace", "-n", "4", "--out", "run", "--json"),
        cwd=folder,
    )
    assert json.loads(ran.stdout)["unscored"] == 0, ran.stderr
    found = json.loads(termarena("analyze", "run", "--json", cwd=folder).stdout)
    return [(kinds[trial["task_id"]], {flaw["name"] for flaw in trial["flaws"]}) for trial in found["trials"]]


def shares(read: Iterable[tuple[str, set[str]]]) -> tuple[float, float]:
    """How many flaws were named, and how many clean trials were flagged."""
    named = Counter(kind in names for kind, names in read if kind != "clean")
    flagged = Counter(bool(names) for kind, names in read if kind == "clean")
    return named[True] / named.total(), flagged[True] / flagged.total()


def test_known_flaws_are_named_and_clean_work_is_not_flagged(tmp_path: Path) -> None:
    read = analysis_of(tmp_path, range(4))
    assert shares(read) == (1.0, 0.0), read


@pytest.mark.soak
def test_of_two_hundred_trials_nearly_all_are_read_rightly(tmp_path: Path) -> None:
    read = [one for part in range(5) for one in analysis_of(tmp_path / str(part), range(8 * part, 8 * part + 8))]
    assert len(read) == 200
    named, flagged = shares(read)
    assert named >= 0.95, read
    assert flagged <= 0.05, read


# Trajectories of every shape.


def said(text: str = "", *, at: int = 0, **more: object) -> dict[str, Any]:
    return {"message": text, "timestamp": f"2026-01-01T00:00:{at:02}+00:00", "llm_call_count": 1, **more}


def did(name: str, arguments: dict[str, object], output: str = "", *, at: int = 0, **facts: object) -> dict[str, Any]:
    return {
        "timestamp": f"2026-01-01T00:00:{at:02}+00:00",
        "tool_calls": [{"tool_call_id": "c", "function_name": name, "arguments": arguments}],
        "observation": {"results": [{"source_call_id": "c", "content": output, "extra": facts or None}]},
    }


def ran(command: str, exit_status: int = 0, output: str = "", *, at: int = 0) -> dict[str, Any]:
    return did("terminal.run", {"command": command}, output, at=at, exit_status=exit_status) | {"llm_call_count": 0}


def read(folder: Path, outcomes: dict[str, str], paths: dict[tuple[str, int], list[dict[str, Any]]]) -> Reading:
    view = made_run(folder / "run", outcomes)
    for (task, attempt), steps in paths.items():
        place = view.folder.attempt(task, attempt)
        place.path.mkdir(parents=True)
        whole = [{"source": "user", "message": "Do it.", "timestamp": "2026-01-01T00:00:00+00:00"}, *steps]
        numbered = tuple(Step.model_validate({**step, "step_id": n}) for n, step in enumerate(whole, 1))
        write_trajectory(place.trajectory, Trajectory(agent=TrajectoryAgent(name="a", version="1"), steps=numbered))
    return read_runs([view])


def read_one(folder: Path, steps: list[dict[str, Any]], outcome: str = "0") -> TrialReading:
    return read(folder, {"task": outcome}, {("task", 1): steps}).trials[0]


def names(trial: TrialReading) -> list[str]:
    return [flaw.name for flaw in trial.flaws]


def test_the_first_difference_is_told_with_the_most_similar_solved_path(tmp_path: Path) -> None:
    begin = [ran("cd /app && ./configure"), ran("cat README"), ran("make")]
    found = read(
        tmp_path,
        {"task": "110"},
        {
            ("task", 1): [ran("curl -O http://x/y")],
            ("task", 2): [*begin, ran("make install"), ran("ls")],
            ("task", 3): [ran("ls -la"), *begin, ran("rm -rf build")],
        },
    )
    [parting] = found.divergences
    assert (parting.unsolved, parting.solved, parting.shared) == ("run/task/3", "run/task/2", 2)
    assert (parting.unsolved_next, parting.unsolved_step) == ("rm -rf build", 6)
    assert (parting.solved_next, parting.solved_step) == ("make install", 5)


def test_paths_of_one_task_are_compared_across_runs(tmp_path: Path) -> None:
    views = []
    for name, outcome in (("mine", "0"), ("yours", "1")):
        (tmp_path / name).mkdir()
        read(tmp_path / name, {"task": outcome}, {("task", 1): [ran(f"touch {name}")]})
        (tmp_path / name / "run").rename(tmp_path / name / name)
        views.append(read_run(RunFolder(tmp_path / name / name)))
    [parting] = read_runs(views).divergences
    assert (parting.unsolved, parting.solved, parting.unsolved_next) == ("mine/task/1", "yours/task/1", "touch mine")


def test_time_and_tokens_belong_to_the_phase_they_were_spent_in(tmp_path: Path) -> None:
    used = {"metrics": {"prompt_tokens": 100, "completion_tokens": 10}, "extra": {"duration_s": 2.0}}
    steps = [
        said("look", at=2, **used),
        ran("ls", at=2),
        said("write", at=6, **used),
        ran("touch a", at=6),
        ran("touch b", at=7),
        said("check", at=9, **used),
        ran("cat a", at=9),
        said("done", at=12, **used),
    ]
    phases = read_one(tmp_path, steps).phases
    assert {name: (use.acts, use.thinking_s, use.input_tokens) for name, use in phases.items()} == {
        "explore": (1, 2.0, 100),
        "build": (2, 2.0, 100),
        "check": (1, 4.0, 200),
    }


def test_what_another_agent_logs_is_read_without_exit_statuses(tmp_path: Path) -> None:
    steps = [
        said("I build it.") | did("Bash", {"command": "make all"}, "make: *** [all] Error 2\nfatal: error: no rule"),
        said() | did("Write", {"file_path": "/app/x.py", "content": "1"}),
        said() | did("shell", {"command": ["bash", "-lc", "python3 /app/x.py"]}, "1"),
        said("Done."),
    ]
    trial = read_one(tmp_path, steps, "1")
    assert [(act.kind, act.text, act.status) for act in trial.acts] == [
        ("command", "make all", "failed"),
        ("write", "Write /app/x.py", "ok"),
        ("command", "python3 /app/x.py", "unknown"),
    ]
    assert names(trial) == ["ignored_error"]


def test_an_error_that_stays_on_the_screen_is_one_error(tmp_path: Path) -> None:
    error = "$ maek\nbash: maek: command not found\n$ "
    steps = [
        did("terminal.send_keys", {"keys": "maek\n"}, error),
        did("terminal.send_keys", {"keys": "make\n"}, error + "make\nok\n$ "),
    ]
    assert [act.status for act in read_one(tmp_path, steps).acts] == ["failed", "unknown"]


def test_writing_other_content_to_one_path_is_no_loop(tmp_path: Path) -> None:
    writes = [did("write", {"path": "/app/a", "content": str(n)}) for n in range(4)]
    assert names(read_one(tmp_path, writes, "1")) == []
    (tmp_path / "same").mkdir()
    same = [did("write", {"path": "/app/a", "content": "1"}) for _ in range(4)]
    assert names(read_one(tmp_path / "same", same, "1")) == ["loop"]


def test_waiting_by_pressing_no_key_is_waiting(tmp_path: Path) -> None:
    wait = did("bash_command", {"keystrokes": "", "duration": 10.0}, "$ make\ncc -c a.c")
    trial = read_one(tmp_path, [did("bash_command", {"keystrokes": "make\n"}, "$ make"), wait, wait, wait, wait])
    assert [act.effect for act in trial.acts] == ["change", "idle", "idle", "idle", "idle"]
    assert names(trial) == []


def test_an_editor_that_is_told_what_to_do_is_no_shell(tmp_path: Path) -> None:
    def edited(path: str, command: str = "str_replace") -> dict[str, Any]:
        return did("str_replace_editor", {"command": command, "path": path}, "The file has been edited.")

    trial = read_one(tmp_path, [edited("/app/a.py", "view"), edited("/app/a.py"), edited("/app/b.py"), edited("/c.py")])
    assert [(act.kind, act.effect) for act in trial.acts] == [("read", "look"), *[("write", "change")] * 3]
    assert trial.acts[1].text == "str_replace_editor str_replace /app/a.py"
    assert names(trial) == []


@pytest.mark.timeout(10)
def test_a_command_made_to_be_read_for_ever_is_read_soon(tmp_path: Path) -> None:
    failed = [ran(f"x{n} <<{'a' * 19_000}", 1, "a" * 600) for n in range(40)]
    assert len(read_one(tmp_path, failed).acts) == 40


def test_replies_without_acts_and_commands_that_were_cut_off_are_told(tmp_path: Path) -> None:
    cut = [did("terminal.run", {"command": f"./serve {n}"}, timed_out=True) for n in range(2)]
    trial = read_one(tmp_path, [said("Hm."), said("Well."), said("So."), said("Now."), *cut])
    assert {"talk_without_acts", "timeouts"} <= set(names(trial))


def test_a_trial_without_a_readable_trajectory_is_told_and_stops_nothing(tmp_path: Path) -> None:
    view = made_run(tmp_path / "run", {"a": "1", "b": "0", "c": "?"})
    broken = view.folder.attempt("b", 1)
    broken.path.mkdir(parents=True)
    broken.trajectory.write_text('{"schema_version": "ATIF-v1.7"')
    found = read_runs([view])
    assert [trial.flaws for trial in found.trials] == [(), (), ()]
    assert "trajectory.json" in (found.trials[1].problem or "")
    assert found.trials[2].problem == "no trajectory was kept"


def test_an_imported_run_is_told_to_have_nothing_to_read(tmp_path: Path) -> None:
    view = made_run(tmp_path / "run", {"a": "1", "b": "0"})
    origin = Origin(tool="harbor", version=None, name="job", path="/jobs/job")
    found = read_runs([replace(view, lock=view.lock.model_copy(update={"origin": origin}))])
    assert [trial.flaws for trial in found.trials] == [(), ()]
    assert {trial.problem for trial in found.trials} == {"it was imported from harbor, without what the agent did"}
    assert "2 have no trajectory to read" in as_markdown(found)


def test_nothing_an_agent_wrote_is_markup(tmp_path: Path) -> None:
    steps = [said(HOSTILE), ran(HOSTILE, 1, HOSTILE), ran(HOSTILE, 1, HOSTILE), ran(HOSTILE, 1, HOSTILE)]
    found = read(tmp_path, {"task": "0"}, {("task", 1): steps})
    page, text = as_html(found, prose=HOSTILE), as_markdown(found, timelines=found.trials, prose=HOSTILE)
    assert "<script>" not in page
    assert "alert(1)" in page
    assert "\n# not a heading" not in text
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if line.startswith("| run/task/1")]
    assert [line.replace("\\|", "").count("|") for line in rows] == [6]


def test_every_link_of_the_page_leads_to_one_step(tmp_path: Path) -> None:
    steps = [said("I look."), *(ran("make", 2, "make: *** No rule") for _ in range(3))]
    found = read(tmp_path, {"task": "0", "other": "0"}, {("task", 1): steps, ("other", 1): steps})
    page = as_html(found)
    places, links = re.findall(r' id="(\w+)"', page), re.findall(r'href="#(\w+)"', page)
    assert len(links) >= 6
    assert len(places) == len(set(places))
    assert set(links) <= set(places)
    assert "explore: 0 acts" not in page
    assert re.search(r"<p class=time>\w+: \d+ acts?, [\d.]+ s thinking", page)


def test_the_same_runs_give_the_same_reading(tmp_path: Path) -> None:
    steps = [ran("ls"), ran("make", 2, "make: *** No rule"), ran("echo 1 > one.txt")]
    first = read(tmp_path, {"task": "01"}, {("task", 1): steps, ("task", 2): steps[2:]})
    again = read_runs([read_run(RunFolder(tmp_path / "run"))])
    assert json.dumps(as_data(first)) == json.dumps(as_data(again))
    assert as_html(first) == as_html(again)
