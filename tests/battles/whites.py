"""White agents of every manner, each a real A2A server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater

from termarena.battles.cards import WHITE_CARD
from termarena.battles.serving import Place, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from a2a.server.agent_execution import RequestContext
    from a2a.server.events import EventQueue

SOLVES: dict[str, Any] = {"kind": "exec_request", "command": "echo 1 >/app/one.txt", "timeout": 30}
FINAL: dict[str, Any] = {"kind": "final", "output": "done"}


class White(AgentExecutor):
    """Says what `say(turn, heard)` gives, in one of several styles; turns count from 1 in each context."""

    def __init__(self, say: Callable[[int, str], Any] | None = None, *, style: str = "status") -> None:
        self.say = say or (lambda turn, _: SOLVES if turn == 1 else FINAL)
        self.style = style
        self.turns: dict[str, int] = {}
        self.heard: list[dict[str, Any]] = []
        self.cancelled = asyncio.Event()
        self.begun = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        text = context.get_user_input()
        task = context.current_task or new_task_from_user_message(context.message)
        turn = self.turns[task.context_id] = self.turns.get(task.context_id, 0) + 1
        with contextlib.suppress(ValueError):
            self.heard.append(json.loads(text))
        if self.style != "message" and context.current_task is None:
            await event_queue.enqueue_event(task)
        self.begun.set()
        said = self.say(turn, text)
        if asyncio.iscoroutine(said):
            said = await said
        words = said if isinstance(said, str) else json.dumps(said)
        if self.style == "message":
            await event_queue.enqueue_event(new_text_message(words, context_id=task.context_id))
            return
        await self._answer(TaskUpdater(event_queue, task.id, task.context_id), said, words)

    async def _answer(self, updater: TaskUpdater, said: Any, words: str) -> None:  # noqa: ANN401 - any JSON
        message = updater.new_agent_message([new_text_part(words)])
        if self.style == "artifact":
            await updater.start_work(updater.new_agent_message([new_text_part("thinking {about} it")]))
            await updater.add_artifact([new_text_part(words)], name="reply")
            await updater.complete()
        elif self.style == "data":
            await updater.add_artifact([new_data_part(said)], name="reply")
            await updater.complete()
        elif self.style == "fenced":
            fenced = f"Let me see {{hm}}.\n```json\n{words}\n```\nThat should do."
            await updater.complete(updater.new_agent_message([new_text_part(fenced)]))
        elif self.style == "input-required":
            await updater.requires_input(message)
        elif self.style == "chunks":
            half = len(words) // 2
            parts = [new_text_part(words[:half])], [new_text_part(words[half:])]
            await updater.add_artifact(parts[0], artifact_id="a", append=False)
            await updater.add_artifact(parts[1], artifact_id="a", append=True, last_chunk=True)
            await updater.complete()
        elif self.style == "exception":
            raise RuntimeError("the white agent broke")
        else:
            await updater.complete(message)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.set()
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


@contextlib.asynccontextmanager
async def white_at(white: AgentExecutor, place: Place | None = None) -> AsyncIterator[str]:
    """Its address, while the block lasts."""
    async with serve(white, WHITE_CARD, place or Place()) as served:
        yield served.url
