"""`cli:NAME`: a program of others that lives in the sandbox and asks its model through the broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING, Final

from termarena.agents.contract import AgentReport, Usage
from termarena.agents.installed.description import PREFIX, describe
from termarena.agents.installed.errors import AgentNotInstalled
from termarena.agents.installed.exchanges import ExchangeSteps
from termarena.agents.installed.logs import read_log
from termarena.agents.installed.tool_servers import tell_servers
from termarena.agents.mind import usage_of
from termarena.broker.app import dialect_at
from termarena.broker.contract import Refusal
from termarena.broker.server import require_server
from termarena.core.errors import AgentError, SandboxFileError, UsageError, WorkspaceClosed
from termarena.core.trajectory import Step
from termarena.models import RunModels
from termarena.models.names import parse_name
from termarena.sandbox import MODEL_URL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.agents.contract import Brief, Ground, OwnEnd, Workspace
    from termarena.agents.installed.description import Description
    from termarena.agents.installed.sharing import InstalledRun
    from termarena.agents.registry import AgentFactory, AgentRequest
    from termarena.broker import Exchanged, Seat
    from termarena.models.contract import Request
    from termarena.sandbox import ExecResult, SandboxSpec

__all__ = ["InstalledAgent", "make"]

FOLDER: Final = "/tmp/termarena"  # noqa: S108 - inside the sandbox, where nobody else is
LOG_DIR: Final = f"{FOLDER}/logs"
INSTRUCTION: Final = f"{FOLDER}/instruction.txt"
MCP: Final = f"{FOLDER}/mcp"
GRACE_S: Final = 20.0
"""For an agent to end by itself once its budget is spent."""
MARGIN_S: Final = 5.0
MARGIN: Final = 0.05
"""Of its time: what is kept at the end to read its log."""
LAST_WORDS_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class _Words:
    """What makes agents of one word."""

    word: str
    description: Description
    model: str
    variables: Mapping[str, str]
    """Of the harness, by name; secrets, perhaps."""
    longest_reply: int | None = None
    """Tokens that its model may answer with at once."""


def make(request: AgentRequest) -> AgentFactory:
    """Raises `NotFound` and `UsageError` for a word or a description that is none, without a model, or for a variable
    that is not set; and what `RunModels.check` raises."""
    description = describe(request.argument)
    model, shared = request.options.model, request.options.installed
    if model is None:
        hint = "--model anthropic:claude-sonnet-4-5; docs/models.md has them all"
        raise UsageError(f"the agent {request.word} needs a model", hint=hint)
    require_server()
    (shared.models if shared is not None else RunModels()).check(model)
    missing = [name for name in description.needs_env if not os.environ.get(name)]
    if missing:
        raise AgentNotInstalled(
            description.name, f"it needs {missing[0]}, which is not set", hint=f"export {missing[0]}=…"
        )
    variables = {name: os.environ[name] for name in description.needs_env}
    loop = request.options.loop
    words = _Words(request.word, description, model, variables, loop.sampling.max_tokens if loop else None)
    return lambda: InstalledAgent(words, shared)


class InstalledAgent:
    """See `Agent`, `Metered` and `Resident`."""

    def __init__(self, words: _Words, shared: InstalledRun | None) -> None:
        """Nothing is started yet; without what a run shares, it cannot move in anywhere."""
        self.name = words.word
        self.version = words.description.version
        self._words = words
        self._shared = shared
        self._seat: Seat | None = None
        self._node = "node"
        self._workspace: Workspace | None = None
        self._exchanges = ExchangeSteps()

    @property
    def usage(self) -> Usage:
        """As the broker metered it."""
        return Usage() if self._seat is None else usage_of(self._seat.model)

    async def move_in(self, ground: Ground) -> SandboxSpec:
        """See the contract: installed where it is not yet, and with a seat at the broker."""
        if self._shared is None:
            raise UsageError(f"the agent {self.name} lives in the sandboxes of a run", hint="use: termarena run")
        layer = await self._shared.layers.on_ground(self._words.description, ground)
        broker = await self._shared.broker()
        self._seat = broker.seat(self._words.model, self._record, longest_reply=self._words.longest_reply)
        self._node = layer.node
        network = ground.spec.network.with_gateway(broker.address)
        return layer.mounted(ground.spec).model_copy(update={"network": network})

    def move_out(self) -> None:
        """See the contract."""
        if self._seat is not None and self._shared is not None:
            self._shared.leave(self._seat)

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Run its command, and read what it says of its work."""
        seat = self._seat
        if seat is None:
            raise AgentError(f"{self.name} was not moved into the sandbox")
        self._workspace = workspace
        await workspace.write(INSTRUCTION, brief.instruction.encode("utf-8", "surrogateescape"))
        await self._hand_over(brief, workspace)
        margin_s = min(MARGIN_S, MARGIN * workspace.seconds_left)
        done = await self._run(workspace, seat, workspace.seconds_left - margin_s)
        message = await self._read(workspace, done)
        if seat.spent.is_set():
            return self._report("resource_limit", f"its budget is spent; {message}")
        if seat.failure is not None:
            raise seat.failure
        if done is None or done.timed_out:
            return self._report("timeout", message)
        if done.exit_status != 0:
            raise AgentError(f"{self.name} ended with status {done.exit_status}: {message}")
        return self._report("submitted", message)

    async def _hand_over(self, brief: Brief, workspace: Workspace) -> None:
        """Tell it of the task's MCP servers; those that it cannot use are named in the trajectory."""
        form = self._words.description.mcp
        told = tell_servers(form, brief.mcp_servers)
        if form != "none":
            await workspace.write(MCP, told.content.encode("utf-8", "surrogateescape"))
        if told.left_out:
            names = ", ".join(told.left_out)
            said = f"MCP servers of the task that {self.name} cannot use: {names}"
            workspace.note(Step(message=said, llm_call_count=0))

    def _report(self, end: OwnEnd, message: str) -> AgentReport:
        return AgentReport(end, message[-LAST_WORDS_CHARACTERS:], self.usage, self._words.model)

    # Its command.

    async def _run(self, workspace: Workspace, seat: Seat, timeout_s: float) -> ExecResult | None:
        """How the command ended; None where it was ended, since it went on without a budget."""
        description = self._words.description
        script = f'mkdir -p "$LOG_DIR"\n{description.command}'
        running = asyncio.ensure_future(workspace.exec(script, timeout_s=timeout_s, env=self._environment(seat)))
        spent = asyncio.ensure_future(seat.spent.wait())
        try:
            await asyncio.wait({running, spent}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await asyncio.wait({running}, timeout=GRACE_S)
            return await running if running.done() else None
        finally:
            for task in (running, spent):
                task.cancel()
            await asyncio.gather(running, spent, return_exceptions=True)

    def _environment(self, seat: Seat) -> dict[str, str]:
        """Ours, then the description's, where ours are filled in."""
        name = parse_name(self._words.model)
        ours = {
            "PREFIX": PREFIX,
            "INSTRUCTION_FILE": INSTRUCTION,
            "NODE": self._node,
            "LOG_DIR": LOG_DIR,
            "MCP_FILE": MCP,
            "MODEL": name.model if name.provider.wire else name.provider.name,
            "MODEL_URL": MODEL_URL,
            "MODEL_KEY": seat.token,
        }
        own = {key: Template(value).safe_substitute(ours) for key, value in self._words.description.env.items()}
        return {**ours, **self._words.variables, **own}

    # What it says of its work.

    async def _read(self, workspace: Workspace, done: ExecResult | None) -> str:
        """Note its steps; its last words. Without a log of its own, the steps are what the broker saw."""
        description = self._words.description
        log = b"" if done is None else done.stdout
        if description.log is not None:
            with contextlib.suppress(SandboxFileError):
                log = await workspace.read(f"{LOG_DIR}/{description.log}")
        told = read_log(description.parser, log.decode("utf-8", "replace"))
        # A task of several steps comes back with the same agent: what was noted is noted once.
        seen, self._exchanges = self._exchanges, ExchangeSteps()
        with contextlib.suppress(WorkspaceClosed):
            for step in seen.dated(told.steps) or seen.steps():
                workspace.note(step)
        said = "" if done is None else (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        return told.last_words or said[-LAST_WORDS_CHARACTERS:]

    def _record(self, exchange: Exchanged) -> None:
        """Keep an exchange as it was, and what it says of the agent's steps."""
        self._exchanges.add(exchange, _conversation(exchange))
        if self._workspace is None:
            return
        with contextlib.suppress(WorkspaceClosed):
            self._workspace.message("sent", {"url": exchange.path, "body": exchange.request})
            received: dict[str, object] = {
                "url": exchange.path,
                "status": exchange.status,
                "body": exchange.response,
                "duration_s": round(exchange.duration_s, 6),
            }
            if exchange.stripped:
                received["stripped"] = list(exchange.stripped)
            if exchange.problem is not None:
                received["problem"] = exchange.problem
            self._workspace.message("received", received)


def _conversation(exchange: Exchanged) -> Request | None:
    dialect = dialect_at(exchange.path)
    if dialect is None or not isinstance(exchange.request, dict):
        return None
    try:
        return dialect.read(exchange.request)
    except (Refusal, TypeError, AttributeError, ValueError, LookupError):
        return None  # an endpoint may take what we cannot read: the exchange is kept all the same
