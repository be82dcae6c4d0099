"""Commands in a namespace sandbox, with pipes or on a terminal: asked for, waited for, ended when nobody waits."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.core.errors import CapabilityMissing, SandboxBroken
from termarena.sandbox.contract import ROOT_NAMES, ExecResult
from termarena.sandbox.namespace.answers import exit_status, raise_refusal
from termarena.sandbox.namespace.channel import ANSWER_TIMEOUT_S
from termarena.sandbox.namespace.pty import NamespacePty
from termarena.sandbox.namespace.streams import Collector, Pipes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from termarena.sandbox.namespace.channel import Channel
    from termarena.sandbox.namespace.holdings import Holdings
    from termarena.sandbox.namespace.inside import wire
    from termarena.sandbox.spec import SandboxSpec

__all__ = ["Command", "Commands", "Keep", "Rules"]

GRACE_S: Final = 0.5
"""Between SIGTERM and SIGKILL after a timeout."""
BACKSTOP_S: Final = 15.0
"""How much later than a timeout inside the host gives a sandbox up."""


class Rules(NamedTuple):
    """What the sandbox decides for its commands."""

    refuse_if_final: Callable[[], None]
    """Raises when no command may begin any more."""
    give_up: Callable[[], Awaitable[None]]
    """Ends a sandbox whose process 1 does not answer."""


class Keep(NamedTuple):
    """How much of each stream is kept: the first bytes and the last."""

    first_bytes: int
    tail_bytes: int
    on_chunk: Callable[[bytes], None] | None = None
    """Gets everything as it comes, of both streams."""
    is_confided: bool = False
    """Whether nobody but who was given the standard output can write there."""


class Command(NamedTuple):
    """A command that may begin."""

    number: int
    request: wire.Message
    place: str
    """What a refusal to start it names."""


class Commands:
    """What the contract says of `exec` and `open_pty`."""

    def __init__(self, channel: Channel, spec: SandboxSpec, held: Holdings, rules: Rules) -> None:
        """All of it is the sandbox's."""
        self._channel = channel
        self._spec = spec
        self._held = held
        self._rules = rules
        self._env = dict(spec.env)
        self._final: dict[str, str] = {}
        self._opened: dict[int, asyncio.Future[wire.Received]] = {}
        self._draining: set[Collector] = set()
        self._is_closed = False

    def add_environment(self, env: Mapping[str, str], *, is_final: bool = False) -> None:
        """Variables for every later command; `is_final`: also over those that come with it."""
        (self._final if is_final else self._env).update(env)

    def drop_final_environment(self) -> None:
        """Later commands have their own variables again."""
        self._final.clear()

    def command(
        self,
        argv: Sequence[str],
        *,
        user: str | None,
        cwd: str | None,
        env: Mapping[str, str] | None,
    ) -> Command:
        """What is to run. Raises `ValueError`, and what the sandbox refuses."""
        words = list(argv)
        if not words or any("\0" in word for word in words):
            raise ValueError("a command needs at least one word, and no word may hold a NUL")
        self._rules.refuse_if_final()
        number = self._channel.number()
        request = {
            "id": number,
            "argv": words,
            "user": self.user(user),
            "cwd": cwd or self._spec.workdir,
            "env": {**self._env, **(env or {}), **self._final},
            "grace_s": GRACE_S,
            "timeout_s": None,
            "is_login": True,
        }
        return Command(number, request, cwd or words[0])

    def user(self, user: str | None) -> str:
        """The user meant; raises `CapabilityMissing` where there is only root."""
        wanted = user or self._spec.user
        if wanted not in ROOT_NAMES and not self._held.has_users:
            raise CapabilityMissing(
                "a user other than root",
                driver="namespace",
                why="an ordinary user without newuidmap has one id to give",
                hint="install uidmap and grant a range in /etc/subuid and /etc/subgid",
            )
        return wanted

    async def run(self, command: Command, *, stdin: bytes, timeout_s: float | None, kept: Keep) -> ExecResult:
        """Run a command to its end."""
        request = {**command.request, "op": "exec", "timeout_s": timeout_s}
        kills_before = self._oom_kills()
        started = time.monotonic()
        pipes = Pipes(stdin, is_confided=kept.is_confided)
        try:
            future = await self._channel.begin(request, pipes.inner)
        except BaseException:
            pipes.abandon()
            raise
        out, err, feeder = pipes.attend(
            stdin, keep_bytes=kept.first_bytes, tail_bytes=kept.tail_bytes, on_chunk=kept.on_chunk
        )
        try:
            answer = (await self.result(command.number, future, timeout_s=timeout_s)).message
            raise_refusal(answer, "exec", command.place)
            code, number_of_signal = exit_status(answer["status"], timed_out=answer["timed_out"])
            stdout, stderr = out.finish(), err.finish()
            return ExecResult(
                exit_status=code,
                signal=number_of_signal,
                stdout=stdout.first(),
                stderr=stderr.first(),
                stdout_bytes=stdout.total_bytes,
                stderr_bytes=stderr.total_bytes,
                stdout_tail=stdout.last(),
                stderr_tail=stderr.last(),
                duration_s=time.monotonic() - started,
                timed_out=answer["timed_out"],
                oom_killed=answer["watch_kills"] > 0 or self._oom_kills() > kills_before,
            )
        finally:
            if feeder is not None:
                feeder.close()
            self._keep_draining(out, err)

    def _keep_draining(self, *collectors: Collector) -> None:
        self._draining = {collector for collector in self._draining if collector.is_open}
        for collector in collectors:
            collector.finish()
            if collector.is_open and not self._is_closed:
                self._draining.add(collector)
            else:
                collector.close()

    def _oom_kills(self) -> int:
        return self._held.cgroup.oom_kills() if self._held.cgroup is not None else 0

    async def result(
        self, number: int, future: asyncio.Future[wire.Received], *, timeout_s: float | None = None
    ) -> wire.Received:
        """The answer to a request; a cancelled wait ends what it started, one never answered ends the sandbox."""
        backstop = None if timeout_s is None else timeout_s + GRACE_S + BACKSTOP_S
        try:
            if backstop is None:
                return await future
            async with asyncio.timeout(backstop):
                return await future
        except asyncio.CancelledError:
            await asyncio.shield(self._end(number))
            raise
        except TimeoutError as error:
            await self._rules.give_up()
            raise SandboxBroken(self._channel.sandbox, "its process 1 did not end a command in time") from error

    async def _end(self, number: int) -> None:
        with contextlib.suppress(SandboxBroken):
            try:
                await asyncio.wait_for(self._channel.ask({"op": "kill", "exec": number}), BACKSTOP_S)
            except TimeoutError:
                await self._rules.give_up()

    async def open_pty(self, command: Command, *, cols: int, rows: int) -> NamespacePty:
        """Start a command on a terminal of its own."""
        number = command.number
        opened: asyncio.Future[wire.Received] = asyncio.get_running_loop().create_future()
        self._opened[number] = opened
        ended = await self._channel.begin({**command.request, "op": "pty", "cols": cols, "rows": rows})
        try:
            await asyncio.wait({opened, ended}, timeout=ANSWER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await asyncio.shield(self._end(number))
            raise
        finally:
            self._opened.pop(number, None)
        if not opened.done() and not ended.done():
            await self._rules.give_up()
            raise SandboxBroken(self._channel.sandbox, "its process 1 did not open a terminal in time")
        if not opened.done():
            raise_refusal(ended.result().message, "open a terminal in", command.place)
            raise SandboxBroken(self._channel.sandbox, "a terminal ended before it was opened")
        received = opened.result()
        if "problem" in received.message:
            await asyncio.shield(self._end(number))
            raise_refusal(received.message, "open a terminal in", command.place)
        return NamespacePty(received.fds[0], received.message["pid"], ended=ended, end=lambda: self._end(number))

    def take_opened(self, received: wire.Received) -> bool:
        """Whether this event opened a terminal that somebody waits for."""
        opened = self._opened.pop(received.message.get("opened", 0), None)
        if opened is None or opened.done():
            return False
        opened.set_result(received)
        return True

    def close(self) -> None:
        """Stop reading what daemons still write."""
        self._is_closed = True
        for collector in self._draining:
            collector.close()
