"""Agents: the contract, the workspace of a trial, and the agents that need no model."""

from __future__ import annotations

from termarena.agents.contract import Agent, AgentReport, AgentTerminal, Brief, Usage, Workspace
from termarena.agents.registry import AgentKind, AgentOptions, known_agents, resolve_agent

__all__ = [
    "Agent",
    "AgentKind",
    "AgentOptions",
    "AgentReport",
    "AgentTerminal",
    "Brief",
    "Usage",
    "Workspace",
    "known_agents",
    "resolve_agent",
]
