"""Run with the interpreter of AgentBeats 1.2.6: its own client registers agents, starts a battle, and reports of one.

old_reporter.py register BACKEND PORT_OF_GREEN PORT_OF_WHITE   →  {"battle_id": …}
old_reporter.py report BACKEND BATTLE                          →  {"said": […]}
"""
# mypy: ignore-errors

from __future__ import annotations

import contextlib
import io
import json
import sys

from agentbeats.logging import (
    BattleContext,
    record_agent_action,
    record_battle_event,
    record_battle_result,
    update_battle_process,
)
from agentbeats.utils.deploy.scenario_manager import ScenarioManager


class Agent:
    """What the client knows of an agent of a scenario."""

    def __init__(self, name: str, port: str, *, is_green: bool) -> None:
        self.name, self.agent_host, self.agent_port, self.is_green = name, "127.0.0.1", port, is_green
        self.launcher_host, self.launcher_port, self.task_index = "127.0.0.1", f"{port}/launcher", None
        self.participant_requirements = [{"role": "white_agent", "name": "white_agent", "required": True}]


def register(backend: str, green: str, white: str) -> dict[str, object]:
    """Both agents, then a battle."""
    manager = ScenarioManager.__new__(ScenarioManager)
    ids = [
        manager.register_agent_to_backend(Agent("green", green, is_green=True), backend),
        manager.register_agent_to_backend(Agent("white", white, is_green=False), backend),
    ]
    battle = manager.create_battle(ids[0], [{"name": "white_agent", "agent_id": ids[1]}], backend)
    return {"agents": ids, "battle_id": battle}


def report(backend: str, battle: str) -> dict[str, object]:
    """Events of every kind, then the result, then one too many."""
    context = BattleContext(battle_id=battle, backend_url=backend, agent_name="green")
    update_battle_process(battle, backend, "look", terminal_input="ls", terminal_output="one.txt", reported_by="green")
    said = [
        record_battle_event(context, "it goes on", {"step": 1}),
        record_agent_action(context, "thinks"),
        record_battle_result(context, "white is better", "white_agent", {"score": 1, "max_score": 2}),
        record_battle_event(context, "too late"),
    ]
    return {"said": said}


with contextlib.redirect_stdout(io.StringIO()) as talk:
    done = {"register": register, "report": report}[sys.argv[1]](*sys.argv[2:])
sys.stderr.write(talk.getvalue())
sys.stdout.write(json.dumps(done))
