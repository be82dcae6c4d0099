"""`tools`: a model with a shell and files, by native tool calls; `tools-text`: the same written out in its replies."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from termarena import __version__
from termarena.agents.examples import show_as_text, show_as_turns
from termarena.agents.habits import Habits
from termarena.agents.mind import LoopOptions, Mind, model_of, recall, usage_of
from termarena.agents.text_protocol import FIELDS, read_actions
from termarena.agents.toolbox import TOOLS, Action, Hands
from termarena.models import Message
from termarena.models.errors import BudgetSpent, ContextOverflow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.agents.contract import AgentReport, Brief, Usage, Workspace
    from termarena.agents.custom_tools import CustomTool
    from termarena.agents.registry import AgentFactory, AgentRequest
    from termarena.agents.toolbox import Outcome
    from termarena.models import Completion, MeteredModel, ToolSpec

__all__ = ["ToolsAgent", "make"]

_ROLE: Final = """\
You work in a terminal of a Linux machine that is yours alone, and solve a task there without help.
Look before you act, go step by step, and check the result as a stranger would before you hand it in: hidden tests
look only at the state that you leave. Nobody answers questions. Follow the task to the letter: names, formats, values.
"""
_NATIVE: Final = "Act by calling the tools. When the task is done and checked, call TASK_COMPLETE."
_TEXT: Final = """\
Each of your replies takes one action, written like this:

ACTION: EXECUTE
COMMAND: ls -la /app

ACTION: READ_FILE
PATH: /app/notes.txt

ACTION: WRITE_FILE
PATH: /app/notes.txt
CONTENT:
```
the text, up to the closing fence; use a longer fence where it holds one itself
```

ACTION: LIST_DIR
PATH: /app

ACTION: TASK_COMPLETE

EXECUTE runs a command, of several lines if need be, in a shell that stays. Say TASK_COMPLETE when the task is done
and checked; nothing can be changed afterwards."""
_CUT: Final = (
    "Your reply was cut off at its length limit; nothing of it was done. Say less, and take one action at a time."
)


class _Protocol(Protocol):
    """How a model says what it wants done, and is told what came of it."""

    @property
    def instructions(self) -> str:
        """For the beginning."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """To offer with every request."""

    @property
    def how(self) -> str:
        """How an action is taken, for a model that took none."""

    def read(self, said: Completion) -> tuple[Action, ...]:
        """The actions of a reply."""

    def tell(self, actions: Sequence[Action], outcomes: Sequence[Outcome], notice: str) -> list[Message]:
        """What came of them."""


class _Native:
    instructions = _NATIVE

    def __init__(self, custom: Sequence[CustomTool]) -> None:
        self.tools = (*TOOLS, *(tool.spec() for tool in custom))

    how = "Call one of the tools; when the task is done, call TASK_COMPLETE."

    def read(self, said: Completion) -> tuple[Action, ...]:
        calls = said.message.tool_calls
        if not calls:
            return read_actions(said.message.content) if "ACTION:" in said.message.content else ()
        return tuple(_action(call.id, call.name, call.arguments) for call in calls)

    def tell(self, actions: Sequence[Action], outcomes: Sequence[Outcome], notice: str) -> list[Message]:
        if actions and actions[0].id.startswith("action_"):  # written out: there is no call to answer
            return _TextForm(()).tell(actions, outcomes, notice)
        texts = [outcome.text for outcome in outcomes]
        texts += ["Nothing was done: the task is handed in already."] * (len(actions) - len(texts))
        texts[-1] = f"{texts[-1]}\n{notice}"
        return [Message("tool", text, tool_call_id=action.id) for action, text in zip(actions, texts, strict=True)]


class _TextForm:
    tools: tuple[ToolSpec, ...] = ()

    def __init__(self, custom: Sequence[CustomTool]) -> None:
        self.instructions = _TEXT + "".join(map(_described, custom))
        self._fields = tuple(dict.fromkeys([*FIELDS, *(name for tool in custom for name in tool.parameters)]))

    how = (
        "Write an action, such as:\nACTION: EXECUTE\nCOMMAND: ls -la\nor, when the task is done: ACTION: TASK_COMPLETE"
    )

    def read(self, said: Completion) -> tuple[Action, ...]:
        if said.finish == "length":
            return ()
        return read_actions(said.message.content, self._fields)

    def tell(self, actions: Sequence[Action], outcomes: Sequence[Outcome], notice: str) -> list[Message]:
        parts = [f"{action.name}:\n{outcome.text}" for action, outcome in zip(actions, outcomes, strict=False)]
        return [Message("user", "\n\n".join([*parts, notice]))]


def _described(tool: CustomTool) -> str:
    fields = "".join(f"\n{name.upper()}: {one.description or 'a text'}" for name, one in tool.parameters.items())
    return f"\n\nThere is also:\n\nACTION: {tool.name}{fields}\n\n{tool.description}"


def _action(identity: str, name: str, arguments: str) -> Action:
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        return Action(identity, name, problem=f"the arguments of {name or 'the call'} are no JSON: {error}")
    if not isinstance(given, dict):
        return Action(identity, name, problem=f"the arguments of {name} are no JSON object")
    return Action(identity, name, given)


def make(request: AgentRequest) -> AgentFactory:
    """Raises `UsageError` without a model, and what `RunModels.check` raises."""
    opener = model_of(request)
    loop = request.options.loop or LoopOptions()
    category = request.task.metadata.category
    custom = tuple(tool for tool in loop.tools if not tool.categories or category in tool.categories)
    protocol: _Protocol = _TextForm(custom) if request.word == "tools-text" else _Native(custom)
    return lambda: ToolsAgent(request, opener(), protocol, replace(loop, tools=custom))


class ToolsAgent:
    """See `Agent`."""

    version = __version__

    def __init__(self, request: AgentRequest, model: MeteredModel, protocol: _Protocol, options: LoopOptions) -> None:
        """`request` is what it was made of."""
        self.name = request.word
        self._request = request
        self._model = model
        self._protocol = protocol
        self._options = options

    @property
    def usage(self) -> Usage:
        """Up to now, of all steps of the task."""
        return usage_of(self._model)

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Raises `ModelUnavailable` when no answer was to be had, and what says that the sandbox is gone."""
        mind = Mind(self._model, workspace, tools=self._protocol.tools, sampling=self._options.sampling)
        mind.tell(*await self._beginning(brief, workspace))
        async with Hands(workspace, workdir=brief.workdir, custom=self._options.tools) as hands:
            try:
                return await self._work(mind, hands, workspace)
            except (BudgetSpent, ContextOverflow) as error:
                return mind.report("resource_limit", str(error))

    async def _beginning(self, brief: Brief, workspace: Workspace) -> list[Message]:
        """The instructions, examples, the task; which examples is noted in the trajectory."""
        role = Message("system", f"{_ROLE}\n{self._protocol.instructions}")
        task = Message("user", self._task(brief))
        found = await recall(self._request, brief.instruction)
        if found is None:
            return [role, task]
        workspace.note(found.step())
        if not self._protocol.tools:
            return [role, *show_as_turns(found), task]
        return [Message("system", f"{role.content}\n\n{show_as_text(found)}"), task]

    def _task(self, brief: Brief) -> str:
        rows = [brief.instruction.strip(), ""]
        if brief.workdir:
            rows.append(f"Commands start in {brief.workdir}.")
        if brief.network == "none":
            rows.append("There is no network.")
        rows.append(f"You have {brief.timeout_s:.0f} seconds and {self._options.max_steps} replies.")
        return "\n".join(rows)

    async def _work(self, mind: Mind, hands: Hands, workspace: Workspace) -> AgentReport:
        habits = Habits()
        for step in range(1, self._options.max_steps + 1):
            said = await mind.answer_if_readable()
            if said is not None and said.finish == "refused":
                return mind.report("refused", said.message.content)
            actions = self._protocol.read(said) if said is not None else ()
            if not actions:
                text = said.message.content if said is not None else ""
                is_cut = said is not None and said.finish == "length"
                found = habits.spoke_only(text, how=_CUT if is_cut else self._protocol.how)
                told = [Message("user", found.word)]
            else:
                outcomes = await _carry_out(actions, hands)
                if outcomes[-1].is_done:
                    return mind.report("submitted", said.message.content if said is not None else "")
                found = habits.acted(actions, outcomes)
                notice = f"[reply {step} of {self._options.max_steps}; {workspace.seconds_left:.0f} s left]"
                told = self._protocol.tell(actions, outcomes, f"{found.word}\n{notice}" if found.word else notice)
            if found.end is not None:
                return mind.report(found.end, said.message.content if said is not None else "")
            mind.tell(*told)
        return mind.report("resource_limit", f"all {self._options.max_steps} replies are used")


async def _carry_out(actions: Sequence[Action], hands: Hands) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for action in actions:
        outcomes.append(await hands.do(action))
        if outcomes[-1].is_done:
            break
    return outcomes
