"""A white agent: writes the text that a task shows into the file that it names."""

import json
import re
import sys

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette


def next_request(told: dict) -> dict:
    """What to ask for: this is where a model of yours would think."""
    if told.get("kind") != "task":
        return {"kind": "final", "output": "done"}
    path = re.search(r"`(/[^`]+)`", told["instruction"])
    text = re.search(r"```\n(.*?\n)```", told["instruction"], re.DOTALL)
    if path is None or text is None:
        return {"kind": "final", "output": "I cannot read this task"}
    command = f"cat >{path[1]} <<'END'\n{text[1]}END"
    return {"kind": "exec_request", "command": command, "timeout": 30}


class White(AgentExecutor):
    async def execute(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        try:
            reply = json.dumps(next_request(json.loads(context.get_user_input())))
        except ValueError:
            reply = "I work on tasks of terminal-bench-shell-v1."
        await updater.complete(updater.new_agent_message([new_text_part(reply)]))

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


url = f"http://127.0.0.1:{sys.argv[1]}"
card = AgentCard(
    name="Typist",
    description="Writes files.",
    version="1",
    supported_interfaces=[AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=url)],
    default_input_modes=["text"],
    default_output_modes=["text"],
    capabilities=AgentCapabilities(streaming=True),
    skills=[AgentSkill(id="write", name="Write", description="Writes files.", tags=["terminal"])],
)
handler = DefaultRequestHandler(agent_executor=White(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, rpc_url="/")])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
