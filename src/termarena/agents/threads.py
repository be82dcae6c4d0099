"""An agent in a thread of its own: its calls of the workspace go over to the harness's event loop and back."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import AgentError, WorkspaceClosed

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

    from termarena.agents.contract import Brief, Workspace

__all__ = ["AgentThread"]

PATIENCE_S: Final = 2.0
"""How long an agent has to return after it was cancelled before its thread is interrupted."""


class AgentThread:
    """One call of `solve`, in a daemon thread that neither the harness nor the end of the process waits for."""

    def __init__(self, name: str) -> None:
        """`name` is the agent's, for debuggers."""
        self._harness = asyncio.get_running_loop()
        self._ended: asyncio.Future[Any] = self._harness.create_future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(target=self._main, name=f"agent {name}", daemon=True)
        self._work: Callable[[], Any] = lambda: None

    async def run(self, find: Callable[[], Callable[..., Any]], brief: Brief, workspace: Workspace) -> object:
        """What `find()(brief, workspace)` gives, both called in the thread; a plain function gets a workspace whose
        methods are plain functions too.

        Raises what it raises. Cancelled, it returns at once: the thread is told, and interrupted if it does not listen.
        """
        self._work = lambda: self._solve(find(), brief, workspace)
        self._thread.start()
        try:
            return await self._ended
        except asyncio.CancelledError:
            self._tell_to_stop()
            raise

    # In the agent's thread.

    def _main(self) -> None:
        try:
            result = self._work()
        except BaseException as error:  # noqa: BLE001 - the thread's only way to tell; raised again by `run`
            self._report(error=error)
        else:
            self._report(result)

    def _solve(self, solve: Callable[..., Any], brief: Brief, workspace: Workspace) -> object:
        if not inspect.iscoroutinefunction(solve):
            result = solve(brief, _Plain(workspace, self._harness))
            return self._await(result) if inspect.isawaitable(result) else result
        return self._await(solve(brief, _Hopping(workspace, self._harness)))

    def _await(self, awaitable: Awaitable[Any]) -> object:
        async def main() -> object:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            return await awaitable

        return asyncio.run(main())

    def _report(self, result: object = None, *, error: BaseException | None = None) -> None:
        def settle() -> None:
            if self._ended.done():
                return
            if error is None:
                self._ended.set_result(result)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                self._ended.set_exception(error)
            else:  # what would end the harness too, or a future cannot hold
                told = AgentError(f"the agent ended by {type(error).__name__}: {error}")
                told.__cause__ = error
                self._ended.set_exception(told)

        with contextlib.suppress(RuntimeError):  # the harness's loop is closed: nobody wants to know any more
            self._harness.call_soon_threadsafe(settle)

    # In the harness's.

    def _tell_to_stop(self) -> None:
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # its loop has just ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._harness.call_later(PATIENCE_S, self._interrupt)

    def _interrupt(self) -> None:
        """Raise SystemExit in the thread: it ends a loop of Python code at once, a call that blocks when it returns."""
        if self._thread.is_alive() and self._thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), ctypes.py_object(SystemExit))


class _Hopping:
    """An object of the harness's event loop as an agent's own loop has it: what is awaited there is awaited here."""

    def __init__(self, inner: Any, harness: asyncio.AbstractEventLoop) -> None:  # noqa: ANN401 - a workspace, a terminal
        self._inner = inner
        self._harness = harness

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the inner one has it
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        if name == "terminal":
            return lambda *args, **kwargs: self._terminal(found(*args, **kwargs))
        if inspect.iscoroutinefunction(found):
            return functools.partial(self._awaited, found)
        return lambda *args, **kwargs: _over(_called(found, *args, **kwargs), self._harness).result()

    async def _awaited(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> object:  # noqa: ANN401 - as it takes them
        return await asyncio.wrap_future(_over(function(*args, **kwargs), self._harness))

    @contextlib.asynccontextmanager
    async def _terminal(self, inner: contextlib.AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        opened = await asyncio.wrap_future(_over(inner.__aenter__(), self._harness))
        try:
            yield _Hopping(opened, self._harness)
        finally:
            await asyncio.wrap_future(_over(inner.__aexit__(None, None, None), self._harness))


class _Plain:
    """The same for an agent that awaits nothing: every method returns when it is done."""

    def __init__(self, inner: Any, harness: asyncio.AbstractEventLoop) -> None:  # noqa: ANN401 - as above
        self._inner = inner
        self._harness = harness

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        if name == "terminal":
            return lambda *args, **kwargs: self._terminal(found(*args, **kwargs))
        return lambda *args, **kwargs: _over(_called(found, *args, **kwargs), self._harness).result()

    @contextlib.contextmanager
    def _terminal(self, inner: contextlib.AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        opened = _over(inner.__aenter__(), self._harness).result()
        try:
            yield _Plain(opened, self._harness)
        finally:
            _over(inner.__aexit__(None, None, None), self._harness).result()


async def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> object:  # noqa: ANN401 - as it takes them
    result = function(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def _over(work: Coroutine[Any, Any, Any], harness: asyncio.AbstractEventLoop) -> concurrent.futures.Future[Any]:
    """Have the harness's loop do it. Raises `WorkspaceClosed` if that is no more."""
    if harness.is_closed():
        work.close()
        raise WorkspaceClosed("the run is over")
    return asyncio.run_coroutine_threadsafe(work, harness)
