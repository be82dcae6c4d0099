"""Our agents as white agents: an A2A server that answers task messages with the work of `--agent`."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater

from termarena.agents.registry import AgentOptions, resolve_agent
from termarena.battles.remote import Errand
from termarena.battles.seat import Seat
from termarena.battles.shell_v1 import PROTOCOL, objects_in
from termarena.core.errors import NotFound
from termarena.tasks.model import Environment, Metadata, Provenance, Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from a2a.server.agent_execution import RequestContext
    from a2a.server.events import EventQueue

    from termarena.agents.contract import Agent
    from termarena.core.records import Json

__all__ = ["Bench", "WhiteExecutor"]

MOST_SEATS: Final = 200
"""Conversations at once; the one that was silent longest gives way."""
RESULTS: Final = frozenset(
    {"exec_result", "read_file_result", "write_file_result", "list_dir_result", "keys_result", "error"}
)
GREETING: Final = f"I work on terminal tasks. Send me a task message of {PROTOCOL}."


@dataclass(frozen=True, slots=True)
class Bench:
    """Which agent is served, and the tasks that it may know: the oracle finds its solution there."""

    word: str
    tasks: Sequence[Task] = ()
    options: AgentOptions | None = None

    def agent_for(self, errand: Errand) -> Agent:
        """Raises what `resolve_agent` raises; `NotFound` for the oracle on a task that is not here."""
        task = self._task_of(errand)
        if task is None and self.word == "oracle":
            raise NotFound(f"the task {errand.task_id or 'with this instruction'} is not among those given here")
        return resolve_agent(self.word, task=task or _unknown(errand), options=self.options)()

    def _task_of(self, errand: Errand) -> Task | None:
        """By its id, else by its instruction."""
        for task in self.tasks:
            if errand.task_id is not None and errand.task_id in (task.id, task.id.rpartition("/")[2]):
                return task
        said = errand.instruction.strip()
        return next((task for task in self.tasks if said in _instructions(task)), None)


def _instructions(task: Task) -> tuple[str, ...]:
    return (task.instruction.strip(), *(step.instruction.strip() for step in task.steps))


def _unknown(errand: Errand) -> Task:
    """A task of which nothing is known but what was said."""
    return Task(
        id=errand.task_id or "unknown",
        instruction=errand.instruction,
        environment=Environment(workdir=errand.workdir),
        metadata=Metadata(),
        provenance=Provenance(format="harbor", path=""),
    )


class WhiteExecutor(AgentExecutor):
    """One seat per context."""

    def __init__(self, bench: Bench) -> None:
        """Nothing starts before a task message."""
        self._bench = bench
        self._seats: dict[str, Seat] = {}
        self._heard_at: dict[str, float] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """One turn of a conversation."""
        assert context.message is not None  # noqa: S101 - a request has one
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        try:
            said = await self._answer(task.context_id, context.get_user_input())
        except Exception as error:  # noqa: BLE001 - the session's boundary: the referee is told, whatever it was
            await self._leave(task.context_id)
            words = f"{type(error).__name__}: {error}"[:1000]
            await updater.failed(updater.new_agent_message([new_text_part(words)]))
            return
        await updater.complete(updater.new_agent_message([new_text_part(said)]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """The referee waits no longer: the agent's work ends."""
        if context.context_id is not None:
            await self._leave(context.context_id)
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def aclose(self) -> None:
        """End every agent."""
        for context_id in tuple(self._seats):
            await self._leave(context_id)

    async def _answer(self, context_id: str, text: str) -> str:
        said = next((_plain(one) for one in objects_in(text) if "kind" in one or "type" in one), None)
        if said is not None and said.get("type") == "battle_info":
            return "ready"
        if said is None or said.get("kind") not in {"task", *RESULTS}:
            return GREETING
        if said["kind"] == "task" and (context_id not in self._seats or self._seats[context_id].is_done):
            await self._sit_down(context_id, said)
        seat = self._seats.get(context_id)
        if seat is None:
            raise NotFound("nobody is at work in this context: send a task message first")
        self._heard_at[context_id] = time.monotonic()
        answer = await seat.answer(said)
        return json.dumps(answer, ensure_ascii=False)

    async def _sit_down(self, context_id: str, said: Mapping[str, Json]) -> None:
        if len(self._seats) >= MOST_SEATS:
            await self._leave(min(self._heard_at, key=self._heard_at.__getitem__))
        errand = Errand.of(said)
        self._seats[context_id] = Seat(self._bench.agent_for(errand), errand)
        self._heard_at[context_id] = time.monotonic()

    async def _leave(self, context_id: str) -> None:
        seat = self._seats.pop(context_id, None)
        self._heard_at.pop(context_id, None)
        if seat is not None:
            await seat.leave()


def _plain(table: Mapping[str, object]) -> dict[str, Json]:
    plain: dict[str, Json] = json.loads(json.dumps(table))
    return plain
