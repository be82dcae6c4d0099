"""A white agent on a2a-sdk 0.3, run by an interpreter that has it: `python old_white.py`; prints its port."""
# mypy: ignore-errors

import json
import socket

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
from a2a.utils import new_task


class White(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        told = json.loads(context.get_user_input())
        asks = {"kind": "exec_request", "command": "echo 1 >/app/one.txt", "timeout": 30}
        reply = asks if told["kind"] == "task" else {"kind": "final", "output": "old and done"}
        await updater.add_artifact([Part(root=TextPart(text=json.dumps(reply)))], name="reply")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
skill = AgentSkill(id="t", name="terminal", description="terminal work", tags=["terminal"])
card = AgentCard(
    name="old white",
    description="speaks 0.3",
    url=f"http://0.0.0.0:{port}/",
    version="1",
    default_input_modes=["text"],
    default_output_modes=["text"],
    capabilities=AgentCapabilities(streaming=True),
    skills=[skill],
)
app = A2AStarletteApplication(card, DefaultRequestHandler(White(), InMemoryTaskStore())).build()
print(port, flush=True)  # noqa: T201 - what it is for
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
