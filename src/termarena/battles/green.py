"""The green agent: an A2A server that referees battles, whatever contract the request comes in. No model is asked."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import TaskState

from termarena.battles.orders import Introduction, Order, read_order
from termarena.battles.results import summary_text
from termarena.core.ending import end_tasks
from termarena.core.errors import BattleRefused, TermArenaError

if TYPE_CHECKING:
    from a2a.server.agent_execution import RequestContext
    from a2a.server.events import EventQueue
    from a2a.types import Message

    from termarena.battles.referee import Referee

__all__ = ["GreenExecutor"]

HEARTBEAT_S: Final = 2.0
"""AgentBeats 1.2.6 gives up a silent stream after five seconds."""
MOST_INTRODUCTIONS: Final = 1000
HELP: Final = (
    "I referee terminal tasks. Ask for an assessment with "
    '{"participants": {"agent": "http://…"}, "config": {"tasks": ["hello-world"]}}.'
)


class GreenExecutor(AgentExecutor):
    """One battle per request; those of a backend go on after their answer. `aclose` ends them."""

    def __init__(self, referee: Referee) -> None:
        """`referee` carries battles out."""
        self._referee = referee
        self._introduced: OrderedDict[str, Introduction] = OrderedDict()
        self._background: dict[str, asyncio.Task[None]] = {}
        self._fought_in: dict[str, asyncio.Task[dict[str, Any]]] = {}
        """Battles whose A2A task is still open, by its id."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message. Cancelled, the battle is ended before this returns."""
        assert context.message is not None  # noqa: S101 - a request has one
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        try:
            asked = read_order(context.get_user_input())
            if isinstance(asked, Introduction):
                await updater.complete(_words(updater, self._introduce(asked, task.context_id)))
            elif asked is None:
                await updater.complete(_words(updater, HELP))
            else:
                await self._battle(self._with_backend(asked, task.context_id), updater)
        except BattleRefused as error:
            await updater.reject(_words(updater, f"{error.message}{f' ({error.hint})' if error.hint else ''}"))
        except TermArenaError as error:
            await updater.failed(_words(updater, f"{type(error).__name__}: {error.message}"))
        except Exception as error:  # noqa: BLE001 - the battle's boundary: whoever asked is told
            await updater.failed(_words(updater, f"the referee failed: {type(error).__name__}: {error}"[:1000]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """End the battle, with everything of it, then say so."""
        fought = self._fought_in.get(context.task_id or "")
        if fought is not None:
            await end_tasks(fought)
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def aclose(self) -> None:
        """End every battle, then the floor."""
        await end_tasks(*self._background.values())
        await self._referee.aclose()

    # Introductions: who the referee is, told before the battle.

    def _introduce(self, asked: Introduction, context_id: str) -> str:
        self._introduced[asked.battle_id] = asked
        self._introduced[context_id] = asked
        while len(self._introduced) > MOST_INTRODUCTIONS:
            self._introduced.popitem(last=False)
        return f"Agent {asked.agent_name or 'green_agent'} is ready to battle!"

    def _with_backend(self, order: Order, context_id: str) -> Order:
        """The order with the backend of its introduction, where it was told before."""
        known = self._introduced.pop(order.battle_id, None) or self._introduced.pop(context_id, None)
        if known is None or order.backend_url is not None:
            return order
        return replace(order, battle_id=known.battle_id, backend_url=known.backend_url)

    # Battles.

    async def _battle(self, order: Order, updater: TaskUpdater) -> None:
        if order.is_background and order.backend_url is not None:
            self._begin(order)
            await updater.complete(_words(updater, f"Battle {order.battle_id} is accepted."))
            return
        heard: list[str] = []
        await updater.start_work(_words(updater, f"Battle {order.battle_id} begins."))
        fought = asyncio.create_task(self._referee.fight_and_report(order, heard.append))
        self._fought_in[updater.task_id] = fought
        try:
            while not (await asyncio.wait({fought}, timeout=HEARTBEAT_S))[0]:
                message = _words(updater, "\n".join(heard)) if heard else None
                heard.clear()
                await updater.update_status(TaskState.TASK_STATE_WORKING, message)
            result = fought.result()
        finally:
            try:
                await end_tasks(fought)
            finally:
                del self._fought_in[updater.task_id]
        summary = summary_text(result)
        await updater.add_artifact([new_text_part(summary), new_data_part(result)], name="Result")
        await updater.complete(_words(updater, summary))

    def _begin(self, order: Order) -> None:
        """In the background; a battle that is fought already is not begun again."""
        if order.battle_id in self._background:
            raise BattleRefused(f"the battle {order.battle_id} is fought already")
        fought = asyncio.create_task(self._referee.fight_for_backend(order, lambda _: None))
        self._background[order.battle_id] = fought
        fought.add_done_callback(lambda _: self._background.pop(order.battle_id, None))


def _words(updater: TaskUpdater, text: str) -> Message:
    return updater.new_agent_message([new_text_part(text)])
