"""Agents with known flaws, and without: scripts of models, each made from a seed."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

from support.tasks import Made, make_task

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Replies = list[dict[str, Any]]
DONE: dict[str, Any] = {"tool_calls": [{"name": "TASK_COMPLETE"}]}
SOLVES = (
    "echo 1 > /app/one.txt",
    "printf '1\\n' > one.txt",
    "cp /opt/job/answer.txt /app/one.txt",
    "seq 1 | tee one.txt",
)
LOOKS = (
    "ls -la /app",
    "cat /opt/job/notes.txt",
    "head -3 /opt/job/data.csv",
    "wc -l /opt/job/data.csv",
    "id",
    "uname -a",
)
QUIET = ("grep -c nothing /opt/job/notes.txt", "test -f /app/one.txt", "diff /opt/job/notes.txt /opt/job/data.csv")
SETUP = """mkdir -p /app /opt/job
printf 'write a one\\n' >/opt/job/notes.txt
printf 'id,name\\n1,a\\n2,b\\n' >/opt/job/data.csv
echo 1 >/opt/job/answer.txt
"""


def run_of(*commands: str) -> Replies:
    return [{"tool_calls": [{"name": "EXECUTE", "arguments": {"command": command}}]} for command in commands]


def loop(chance: Random) -> Replies:
    """The same thing with the same result, or two things in turn."""
    begin = run_of(*chance.sample(LOOKS, chance.randint(0, 3)))
    part = chance.choice(
        [
            ["python3 /app/missing.py"],
            ["cat /app/one.txt"],
            ["make -C /app all"],
            ["ls /app", "cat /opt/job/notes.txt"],
            ["sqlite3 /app/a.db 'select 1'; false", "ls /app", "id"],
        ]
    )
    return [*begin, *run_of(*part * chance.randint(3, 6)), *(run_of(SOLVES[0]) if chance.random() < 0.5 else []), DONE]


def ignored_error(chance: Random) -> Replies:
    """Something fails that was to change something, and the agent goes on as if it had not."""
    failing = chance.choice(
        [
            "python3 /opt/job/convert.py --out /app/table.json",
            "tar -xzf /opt/job/archive.tgz -C /app",
            "make -C /opt/job install",
            "gcc -o /app/tool /opt/job/tool.c",
            "cp /opt/job/missing.cfg /app/settings.cfg",
            "cd /nowhere && ./configure --prefix=/usr",
            "chmod 600 /app/secret.key",
        ]
    )
    after = chance.sample(LOOKS, chance.randint(0, 2))
    return [*run_of(*chance.sample(LOOKS, 2), failing, *after, chance.choice(SOLVES)), DONE]


def gave_up(chance: Random) -> Replies:
    """It looks around, or does not, and ends."""
    looked = run_of(*chance.sample(LOOKS, chance.randint(0, 3)))
    words = chance.choice(["", "I am unable to solve this.", "This is beyond my abilities, giving up.", "Done."])
    return [*looked, {**DONE, "content": words}]


def wasted_commands(chance: Random) -> Replies:
    """Much that tells nothing new, between things that do."""
    useless = ["echo thinking about it", "true", "clear", "echo 'let me see'", ":"]
    again = chance.choice(LOOKS)
    commands = [again, chance.choice(QUIET), again, *chance.sample(useless, chance.randint(2, 4)), again]
    return [*run_of(*commands, chance.choice(SOLVES), *chance.sample(LOOKS, chance.randint(0, 2))), DONE]


def clean(chance: Random) -> Replies:
    """Work as it is done: errors that are mended, questions whose answer is no, waiting, and a look at the end."""
    parts = [
        chance.sample(LOOKS, chance.randint(1, 3)),
        chance.sample(QUIET, chance.randint(0, 2)),
        chance.choice(
            [
                [],
                ["python3 /app/make.py", "echo 'print(1)' > /app/make.py", "python3 /app/make.py"],
                ["cp /opt/job/anwser.txt /app/one.txt", "cp /opt/job/answer.txt /app/one.txt"],
                ["cat /app/one.txt", "mkdir -p /app/out", "cat /opt/job/data.csv > /app/out/data.csv"],
                ["gcc -o /app/t /app/t.c", "echo 'int main(void){return 0;}' > /app/t.c", "sleep 0.01", "ls /app"],
                [
                    "(sleep 0.2; touch /app/ready) & true",
                    "sleep 0.1; ls /app",
                    "sleep 0.1; ls /app",
                    "sleep 0.1; ls /app",
                ],
                ["./run.sh", "printf '#!/bin/sh\\n' > run.sh", "chmod +x run.sh", "./run.sh"],
                ["seq 3 > /app/n.txt", "cat /app/n.txt", "seq 4 > /app/n.txt", "cat /app/n.txt"],
            ]
        ),
        [chance.choice(SOLVES)],
        chance.choice([[], ["cat /app/one.txt"], ["grep -qx 1 /app/one.txt && echo fine"]]),
    ]
    return [*run_of(*(command for part in parts for command in part)), DONE]


KINDS: dict[str, Callable[[Random], Replies]] = {
    "loop": loop,
    "ignored_error": ignored_error,
    "gave_up": gave_up,
    "wasted_commands": wasted_commands,
    "clean": clean,
}


def make_corpus(folder: Path, numbers: range) -> dict[str, str]:
    """A task per number for each kind of agent, under `folder/tasks`, and `folder/model.json`; kinds by task id."""
    kinds: dict[str, str] = {}
    conversations = []
    for kind, make in KINDS.items():
        for number in numbers:
            name = f"{kind.replace('_', '-')}-{number:03}"
            instruction = f"Job {name}: write 1 to /app/one.txt.\n"
            make_task(folder / "tasks" / name, Made(setup=SETUP, files={"instruction.md": instruction}))
            conversations.append({"when": f"Job {name}:", "replies": make(Random(f"{kind} {number}"))})  # noqa: S311
            kinds[name] = kind
    (folder / "model.json").write_text(json.dumps({"conversations": conversations}))
    return kinds
