"""What a session needs around it: programs, packages, and files that were there before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.sessions import command, session
from termarena.forge.draft import synthesize
from termarena.forge.environment import installed_by
from termarena.forge.taskfiles import write_environment
from termarena.tasks import load_task

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_installed_is_part_of_the_image_and_not_of_the_solution(tmp_path: Path) -> None:
    draft = synthesize(
        session("Install", "sudo apt-get install -y jq tree", "pip install --user requests==2.32", "jq . a > b")
    )
    found = installed_by(draft.steps)
    assert found.debian == ("jq", "tree")
    assert found.python == ("requests==2.32",)
    assert draft.solution.splitlines()[3:] == ["jq . a > b"]
    write_environment(draft, tmp_path / "task")
    recipe = (tmp_path / "task" / "environment" / "Dockerfile").read_text()
    assert "--no-install-recommends jq python3 python3-pip tree " in recipe
    assert "pip3 install --no-cache-dir --break-system-packages requests==2.32" in recipe
    assert load_task(tmp_path / "task").environment.bare is not None


def test_programs_are_those_of_the_kept_steps() -> None:
    draft = synthesize(
        session("Programs", command("tree", "."), "sort a | uniq > b", "greet() { echo hi; }", "greet > c")
    )
    assert draft.requires == ("bash", "python3", "sort", "uniq")


def test_files_are_given_only_where_all_of_them_was_seen_and_nothing_made_them() -> None:
    draft = synthesize(
        session(
            "Shown",
            command("head short.txt", "a\nb\n"),
            command("head long.txt", "\n".join("0123456789") + "\n"),
            command("cat gone.txt", "cat: gone.txt: No such file or directory\n", None),
            "sort short.txt > out.txt",
            command("cat out.txt", "a\nb\n"),
        )
    )
    assert [(given.path, given.content) for given in draft.inputs] == [("/app/short.txt", "a\nb\n")]
