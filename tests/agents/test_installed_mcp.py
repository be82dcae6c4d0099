"""A task's MCP servers in the hands of installed agents: the forms, and real agents that call a real server's tool."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from agents.test_installed_real import TITLES, USED
from support.tasks import Made, make_task
from termarena.agents.installed.description import catalog
from termarena.agents.installed.tool_servers import START_S, tell_servers
from termarena.core.run_folder import AttemptFolder
from termarena.core.trajectory import read_trajectory
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.trials import Trials
from termarena.tasks.model import McpServer

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.agents.installed.description import McpForm
    from termarena.runs.result import TrialResult

LOCAL = McpServer(name="numbers", transport="stdio", command="/opt/x y", args=('"quoted" $HOME', "é\x7f"))
NEAR = McpServer(name="near.by", transport="streamable-http", url="http://127.0.0.1:8000/mcp")
OLD = McpServer(name="old", transport="sse", url="http://127.0.0.1:8000/sse")
REQUIRED = {"startup_timeout_sec": START_S, "required": True}
ON = {"enabled": True, "timeout": START_S * 1000}
FORMS: dict[McpForm, dict[str, Any]] = {
    "claude-code": {
        "mcpServers": {
            "numbers": {"type": "stdio", "command": LOCAL.command, "args": [*LOCAL.args]},
            "near.by": {"type": "http", "url": NEAR.url},
            "old": {"type": "sse", "url": OLD.url},
        }
    },
    "codex": {
        "mcp_servers": {
            "numbers": {"command": LOCAL.command, "args": [*LOCAL.args], **REQUIRED},
            "near.by": {"url": NEAR.url, **REQUIRED},
        }
    },
    "gemini-cli": {
        "numbers": {"command": LOCAL.command, "args": [*LOCAL.args], "trust": True},
        "near.by": {"httpUrl": NEAR.url, "trust": True},
        "old": {"url": OLD.url, "trust": True},
    },
    "opencode": {
        "numbers": {"type": "local", "command": [LOCAL.command, *LOCAL.args], **ON},
        "near.by": {"type": "remote", "url": NEAR.url, **ON},
        "old": {"type": "remote", "url": OLD.url, **ON},
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: McpForm) -> None:
    told = tell_servers(form, [LOCAL, NEAR, OLD])
    read = tomllib.loads(told.content) if form == "codex" else json.loads(told.content)
    assert read == FORMS[form]
    assert told.left_out == (("old",) if form == "codex" else ())


def test_goose_has_them_as_extensions() -> None:
    told = tell_servers("goose", [LOCAL, NEAR, OLD])
    rows = json.loads(told.content)["extensions"]
    assert {name: (row["type"], row.get("cmd") or row.get("uri")) for name, row in rows.items()} == {
        "numbers": ("stdio", LOCAL.command),
        "near.by": ("streamable_http", NEAR.url),
    }
    assert told.left_out == ("old",)


def test_an_agent_that_knows_no_servers_gets_none_and_they_are_named() -> None:
    assert tell_servers("none", [LOCAL]) == ("", ("numbers",))


@pytest.mark.parametrize("form", [*FORMS, "goose"])
def test_without_servers_the_file_is_there_and_names_none(form: McpForm) -> None:
    told = tell_servers(form, [])
    read = tomllib.loads(told.content) if form == "codex" else json.loads(told.content)
    assert not any(read.values())


# Real ones.

SERVER = """\
from mcp.server import MCPServer
server = MCPServer("numbers")
@server.tool()
def write_number(number: int) -> str:
    "Write a number to its place."
    open("/app/one.txt", "w").write(f"{number}\\n")
    return f"the number {number} is in its place"
server.run()
"""
PYTHON = "/opt/termarena/agent/mcp/bin/python"
TABLE = f"""
[[environment.mcp_servers]]
name = "numbers"
transport = "stdio"
command = "{PYTHON}"
args = ["/srv/server.py"]
"""
BRING_MCP = """install = \"\"\"
python3 -m venv --copies "$PREFIX/mcp"
"$PREFIX/mcp/bin/pip" install --quiet --no-cache-dir mcp
"""
# What each agent calls the tool when it offers it to its model.
TOOLS = {
    "claude-code": "mcp__numbers__write_number",
    "codex": "mcp__numbers__write_number",
    "gemini-cli": "mcp_numbers_write_number",
    "goose": "numbers__write_number",
    "opencode": "numbers_write_number",
    "qwen-code": "mcp__numbers__write_number",
}


async def _try(agent: str, folder: Path) -> TrialResult:
    text = files("termarena.agents.installed").joinpath(f"catalog/{agent}.toml").read_text(encoding="utf-8")
    description = folder / "agent.toml"
    description.write_text(text.replace('install = """\n', BRING_MCP, 1))
    call = {"content": "I ask.", "tool_calls": [{"name": TOOLS[agent], "arguments": {"number": 1}}], **USED}
    first = [{"content": "(never said)"}] if agent == "qwen-code" else []
    script = folder / "script.json"
    replies = [*first, call, *({"content": "It is written.", **USED} for _ in range(3))]
    script.write_text(json.dumps({"by_turn": True, "conversations": [TITLES], "replies": replies}))
    made = Made(
        setup=f"mkdir -p /app /srv\ncat >/srv/server.py <<'END'\n{SERVER}END\n", toml=TABLE, agent_s=240, memory_mb=4096
    )
    task = make_task(folder / "task", made)
    options = RunOptions(agent=f"cli:custom:{description}", model=f"scripted:{script}", driver="namespace")
    async with Trials(options, home=folder / "home", run_id="mcp") as trials:
        return await trials.run(plan_of(task, 1), task, folder=AttemptFolder(folder / "attempt"))


def test_every_agent_that_takes_servers_is_tried() -> None:
    assert TOOLS.keys() == {name for name, known in catalog().items() if known.mcp != "none"}


@pytest.mark.soak
@pytest.mark.needs("npm")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("agent", TOOLS)
async def test_a_real_agent_calls_the_tool_of_a_real_server(agent: str, tmp_path: Path) -> None:
    result = await _try(agent, tmp_path)
    assert (result.outcome, result.agent_end) == ("solved", "submitted"), result.model_dump_json(indent=1)
    steps = read_trajectory(AttemptFolder(tmp_path / "attempt").trajectory).steps
    results = [str(row.content) for step in steps if step.observation for row in step.observation.results]
    assert any("the number 1 is in its place" in row for row in results)
