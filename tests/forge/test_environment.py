"""What a session needs around it: programs, packages, and files that were there before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.sessions import command, session
from termarena.forge.draft import synthesize
from termarena.forge.installs import installed_by
from termarena.forge.packages import packages_for
from termarena.forge.taskfiles import write_environment
from termarena.forge.transcript import Facts
from termarena.tasks import load_task

if TYPE_CHECKING:
    from pathlib import Path

DAY = "2026-03-01T10:00:00Z"


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


def test_versions_are_those_that_the_recording_shows() -> None:
    pip = "Collecting Flask\n...\nSuccessfully installed Flask-2.0.1 click-8.0.1 itsdangerous-2.0.1\n"
    had = "Requirement already satisfied: PyYAML in /usr/lib/python3/dist-packages (5.4.1)\n"
    npm = "\n+ left-pad@1.3.0\nadded 1 package from 1 contributor in 0.5s\n"
    draft = synthesize(
        session(
            "Install",
            command("pip3 install flask pyyaml rich -i https://example.org/simple", pip + had),
            command("python3 -m pip install 'httpx>=0.20' -r requirements.txt", ""),
            command("npm install -g left-pad", npm),
            command("npm i express@4", ""),
            command("npm i chalk", ""),
            command("pip install nothing", "ERROR: no such thing\n", 1),
            "echo x > y",
        )
    )
    found = installed_by(draft.steps)
    assert found.python == ("flask==2.0.1", "httpx>=0.20", "pyyaml==5.4.1", "rich")
    assert (found.node, found.node_here) == (("left-pad@1.3.0",), ("chalk", "express@4"))
    assert found.undated == ("chalk", "rich")
    assert installed_by(draft.steps, "2021-06-01T00:00:00Z").undated == ("rich",)


def test_npm_is_told_the_day_and_what_has_no_date_is_said(tmp_path: Path) -> None:
    facts = Facts(recorded_at="2021-06-01T08:00:00Z")
    draft = synthesize(session("Install", "npm install chalk", "pip install rich", "echo x > y", facts=facts))
    write_environment(draft, tmp_path / "task")
    recipe = (tmp_path / "task" / "environment" / "Dockerfile").read_text()
    assert "RUN npm install --prefix /app --before=2021-06-01 chalk" in recipe
    assert "# The newest version, which may not be the recording's: rich\n" in recipe


@pytest.mark.parametrize("folder", ["/opt/x; touch y", "/opt/$(touch y)", "/opt/x\u2028RUN touch y", "/srv/a b"])
def test_a_folder_and_a_day_of_a_recording_are_no_text_of_a_dockerfile(tmp_path: Path, folder: str) -> None:
    facts = Facts(recorded_at=";touch y;\u2028RUN touch y")
    first = command("npm install left-pad", cwd=folder)
    draft = synthesize(session("Install", first, "node a.js > b.txt", facts=facts))
    assert (draft.workdir, draft.recorded_at) == ("/app", None)
    write_environment(draft, tmp_path / "task")
    recipe = (tmp_path / "task" / "environment" / "Dockerfile").read_text()
    assert "npm install --prefix /app left-pad" in recipe
    assert "touch" not in recipe
    usual = synthesize(session("Install", command("ls > a", cwd="/opt/my-tool_2/x.y@1"), facts=Facts(recorded_at=DAY)))
    assert (usual.workdir, usual.recorded_at) == ("/opt/my-tool_2/x.y@1", DAY)


def test_programs_are_those_of_the_kept_steps() -> None:
    draft = synthesize(
        session("Programs", command("tree", "."), "sort a | uniq > b", "greet() { echo hi; }", "greet > c")
    )
    assert draft.requires == ("bash", "python3", "sort", "uniq")


def test_programs_of_recipes_and_scripts_count_too() -> None:
    draft = synthesize(
        session(
            "Build",
            "printf 'all: hello.o\\n\\t$(CC) -o hello hello.o\\n\\tstrip hello\\n' > Makefile",
            "cat > run.sh <<'END'\n#!/bin/sh\nsqlite3 a.db 'select 1' | no-such-program\nEND",
            command("cat hello.c", "int main(void) { return 0; }\n"),
            "make",
            "sh run.sh > out.txt",
        )
    )
    assert draft.requires == ("bash", "cat", "make", "python3", "sh")
    assert packages_for(draft.called) == ("binutils", "gcc", "libc6-dev", "make", "python3", "sqlite3")


def test_files_are_given_only_where_all_of_them_was_seen_and_nothing_made_them() -> None:
    draft = synthesize(
        session(
            "Shown",
            command("head short.txt", "a\nb\n"),
            command("head long.txt", "\n".join("0123456789") + "\n"),
            command("head -n 3 three.txt", "a\nb\nc\n"),
            command("tail -5 few.txt", "a\nb\n"),
            command("cat -n code.py", "     1\timport os\n     2\n     3\tprint(os)\n"),
            command("cat -A odd.txt", "a$\n"),
            command("cat one two", "a\nb\n"),
            command("jq . value.json", '{\n  "a": 1\n}\n'),
            command("jq .a other.json", "1\n"),
            command(
                "ls -l logs",
                "total 4\n-rw-r--r-- 1 a b 0 Mar  1 12:00 empty.log\n-rw-r--r-- 1 a b 7 Mar  1 12:00 full.log\n",
            ),
            command("cat gone.txt", "cat: gone.txt: No such file or directory\n", None),
            "sort short.txt > out.txt",
            command("cat out.txt", "a\nb\n"),
        )
    )
    assert {given.path: given.content for given in draft.inputs} == {
        "/app/short.txt": "a\nb\n",
        "/app/few.txt": "a\nb\n",
        "/app/code.py": "import os\n\nprint(os)\n",
        "/app/value.json": '{\n  "a": 1\n}\n',
        "/app/logs/empty.log": "",
    }
