"""`terminus`: a model in front of a terminal: it reads screens and types keys."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Self

from termarena import __version__
from termarena.agents.examples import show_as_text
from termarena.agents.habits import Habits
from termarena.agents.keystrokes import press
from termarena.agents.mind import LoopOptions, Mind, model_of, recall, usage_of
from termarena.agents.terminus_reply import read_reply
from termarena.agents.toolbox import Action, Outcome
from termarena.agents.truncation import head_and_tail
from termarena.core.errors import TerminalEnded, TerminalTimeout, UsageError
from termarena.models import Message
from termarena.models.errors import BudgetSpent, ContextOverflow
from termarena.sandbox.terminal import TerminalOptions

if TYPE_CHECKING:
    from termarena.agents.contract import AgentReport, AgentTerminal, Brief, Usage, Workspace
    from termarena.agents.habits import Verdict
    from termarena.agents.registry import AgentFactory, AgentRequest
    from termarena.agents.terminus_reply import Keys, TerminusReply
    from termarena.models import Completion, MeteredModel

__all__ = ["Terminus", "make"]

SCREEN: Final = TerminalOptions(cols=160, rows=40, scrollback_lines=50_000)
OUTPUT_CHARACTERS: Final = 10_000
QUIET_S: Final = 0.15
"""After several lines at once: the shell shows a prompt after each."""
_ROLE: Final = """\
You sit at a Linux terminal of {cols} columns and {rows} rows, and solve a task there without help. You see what the
terminal shows and answer with the keys to type. Look before you act, and check the result before you say that it is
done: hidden tests look only at the state that you leave. Follow the task to the letter.

Answer with one JSON object and nothing else:

{{
  "analysis": "what the screen shows and what is still to do",
  "plan": "what you do next, and why",
  "commands": [{{"keystrokes": "ls -la\\n", "duration": 1.0}}],
  "task_complete": false
}}

- `keystrokes` are typed as they are: end a command with \\n. The name of a key alone presses it: C-c, Escape, Up.
- `duration` is how many seconds to wait at most: 1 where it is left out, 60 at the most. As soon as the shell is back
  at its prompt nothing more is waited for. To wait longer, send empty keystrokes with a duration, again and again.
- `task_complete` hands the work in; you are asked once more before it counts."""
_HOW: Final = 'Answer with one JSON object: {"analysis": …, "plan": …, "commands": [{"keystrokes": "ls\\n"}]}'
_SURE: Final = """\
You say that the task is done.

{screen}

Once it is handed in nothing can be changed. If you are sure, say "task_complete": true once more; else go on."""
_SUM_UP: Final = """\
The conversation gets too long and is about to be cut. Write down for yourself, in plain text, everything that is needed
to go on: what has been done, with the exact commands, paths and values that matter; what was found out; what failed and
why; what is left to do, and in which order."""


def make(request: AgentRequest) -> AgentFactory:
    """Raises `UsageError` without a model or with tools, and what `RunModels.check` raises."""
    opener = model_of(request)
    loop = request.options.loop or LoopOptions()
    if loop.tools:
        raise UsageError("terminus has a terminal and no tools", hint="leave --tools out, or take --agent tools")
    return lambda: Terminus(request, opener(), loop)


class Terminus:
    """See `Agent`."""

    version = __version__

    def __init__(self, request: AgentRequest, model: MeteredModel, options: LoopOptions) -> None:
        """`request` is what it was made of."""
        self.name = request.word
        self._request = request
        self._model = model
        self._options = options

    @property
    def usage(self) -> Usage:
        """Up to now, of all steps of the task."""
        return usage_of(self._model)

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Raises `ModelUnavailable` when no answer was to be had, and what says that the sandbox is gone."""
        mind = Mind(self._model, workspace, sampling=self._options.sampling)
        async with _Desk(workspace) as desk:
            task = f"{brief.instruction.strip()}\n\nYou have {brief.timeout_s:.0f} seconds."
            role = _ROLE.format(cols=SCREEN.cols, rows=SCREEN.rows)
            found = await recall(self._request, brief.instruction)
            if found is not None:
                workspace.note(found.step())
                role = f"{role}\n\n{show_as_text(found)}"
            mind.tell(Message("system", role), Message("user", f"{task}\n\nThe terminal shows:\n\n{await desk.look()}"))
            try:
                return await self._work(mind, desk, workspace)
            except (BudgetSpent, ContextOverflow) as error:
                return mind.report("resource_limit", str(error))

    async def _work(self, mind: Mind, desk: _Desk, workspace: Workspace) -> AgentReport:
        habits = Habits()
        has_said_done = False
        for step in range(1, self._options.max_steps + 1):
            if mind.is_filling:
                await self._sum_up(mind, desk)
            said = await mind.answer_if_readable()
            if said is not None and said.finish == "refused":
                return mind.report("refused", said.message.content)
            reply = read_reply(said.message.content) if said is not None and said.finish != "length" else None
            if said is None or reply is None or reply.problem is not None:
                found, told = self._not_understood(said, reply, habits)
            else:
                shown = await desk.type(reply.keys)
                if reply.is_done and has_said_done:
                    return mind.report("submitted", said.message.content)
                has_said_done = reply.is_done
                found = habits.acted([Action("", "type", {"keys": str(reply.keys)})], [Outcome(shown)])
                told = _SURE.format(screen=shown) if reply.is_done else self._shown(shown, reply, found, step)
                told = f"{told}\n[{workspace.seconds_left:.0f} s left]"
            if found.end is not None:
                return mind.report(found.end, said.message.content if said is not None else "")
            mind.tell(Message("user", told))
        return mind.report("resource_limit", f"all {self._options.max_steps} replies are used")

    def _not_understood(
        self, said: Completion | None, reply: TerminusReply | None, habits: Habits
    ) -> tuple[Verdict, str]:
        """What follows from a reply that asks for nothing that can be done."""
        text = said.message.content if said is not None else ""
        if said is not None and said.finish == "length":
            how = "Your reply was cut off at its length limit. None of it was done: type less at once."
        else:
            how = f"Nothing was typed: {reply.problem}. {_HOW}" if reply is not None else _HOW
        found = habits.spoke_only(text, how=how)
        return found, found.word

    def _shown(self, shown: str, reply: TerminusReply, found: Verdict, step: int) -> str:
        notes = [*(f"Note: {warning}." for warning in reply.warnings), found.word]
        before = "".join(f"{note}\n" for note in notes if note)
        return f"{before}{shown}\n\n[reply {step} of {self._options.max_steps}]"

    async def _sum_up(self, mind: Mind, desk: _Desk) -> None:
        """Have the model write down what matters, and go on with that alone."""
        mind.tell(Message("user", _SUM_UP))
        said = await mind.answer_if_readable()
        summary = said.message.content if said is not None else "(nothing could be written down)"
        start = f"Earlier you wrote down for yourself:\n\n{summary}\n\nThe terminal shows:\n\n{await desk.look()}"
        mind.begin_again(Message("user", start))


class _Desk:
    """A terminal, what is typed there and what it shows; another one where its shell has ended."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._life = contextlib.AsyncExitStack()
        self._terminal: AgentTerminal | None = None
        self._seen_bytes = 0

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._life.aclose()

    async def _open(self) -> AgentTerminal:
        self._terminal = await self._life.enter_async_context(self._workspace.terminal(SCREEN))
        self._seen_bytes = 0
        return self._terminal

    async def look(self) -> str:
        """What the terminal shows now."""
        terminal = self._terminal or await self._open()
        return terminal.screen().text or "(an empty screen)"

    async def type(self, keys: tuple[Keys, ...]) -> str:
        """Type, wait, and tell what came."""
        notice = ""
        for each in keys:
            terminal = self._terminal or await self._open()
            try:
                press(terminal, each.keystrokes)
                await self._wait(terminal, each)
            except TerminalEnded:
                notice = "[The shell has ended; this is a new one.]\n"
                await terminal.close()
                await self._open()
                break
        return notice + self._news(await self.look())

    async def _wait(self, terminal: AgentTerminal, keys: Keys) -> None:
        """Until the shell is back at its prompt, at most as long as was asked for."""
        if not keys.keystrokes:
            await asyncio.sleep(min(keys.wait_s, self._workspace.seconds_left))
            return
        with contextlib.suppress(TerminalTimeout):
            await terminal.wait_idle(timeout_s=max(keys.wait_s, 0.01))
            if keys.keystrokes.count("\n") > 1:
                await terminal.wait_quiet(QUIET_S, timeout_s=max(keys.wait_s, QUIET_S))

    def _news(self, screen: str) -> str:
        """The screen, below what has come and scrolled off since the last look.

        How much that is follows from the bytes that came: a line of n characters takes n + 2 of them. Colours make it a
        little more than there was, never less.
        """
        terminal = self._terminal
        if terminal is None or terminal.screen().is_alternate:
            return f"The terminal shows:\n\n{screen}"
        came, self._seen_bytes = terminal.output_bytes - self._seen_bytes, terminal.output_bytes
        room = came - sum(len(line) + 2 for line in terminal.screen().lines)
        new: list[str] = []
        for line in reversed(terminal.scrollback(min(room // 2, SCREEN.scrollback_lines)) if room > 0 else ()):
            room -= len(line) + 2
            if room < 0:
                break
            new.append(line)
        if not new:
            return f"The terminal shows:\n\n{head_and_tail(screen, OUTPUT_CHARACTERS)}"
        text = "\n".join([*reversed(new), screen])
        return f"New in the terminal, down to what it shows now:\n\n{head_and_tail(text, OUTPUT_CHARACTERS)}"
