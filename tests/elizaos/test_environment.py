"""A sandbox driven by hand, and the plugin's actions in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from elizaos_terminal_bench import (
    TERMINAL_ACTIONS,
    TaskCategory,
    TaskDifficulty,
    TerminalEnvironment,
    TerminalTask,
    create_terminal_bench_plugin,
    terminal_bench_plugin,
)
from elizaos_terminal_bench.types import CommandStatus
from termarena.core.errors import MissingExtra, SandboxFileError, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from elizaos_terminal_bench.plugin import ActionOutcome

BY_HAND = TerminalTask(
    task_id="by-hand",
    instruction="Do.",
    category=TaskCategory.SCRIPTING,
    difficulty=TaskDifficulty.EASY,
    test_script="test -f /workspace/made",
    reference_solution="touch /workspace/made",
    required_tools=["bash"],
    setup_script="echo here >/workspace/given.txt",
)


@pytest.fixture
async def environment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TerminalEnvironment]:
    home = tmp_path_factory.getbasetemp() / "environment-home"
    async with TerminalEnvironment(cache_dir=home, timeout_seconds=30) as made:
        await made.start(BY_HAND)
        yield made


@pytest.mark.needs("user-namespaces")
async def test_the_shell_stays_and_tests_run_beside_it(environment: TerminalEnvironment) -> None:
    assert await environment.list_directory("/workspace") == ["given.txt"]
    assert (await environment.execute("mkdir -p sub && cd sub && export SAID=yes")).status is CommandStatus.SUCCESS
    assert await environment.get_working_directory() == "/workspace/sub"
    done = await environment.execute("echo $SAID; exit_with() { return 3; }; exit_with")
    assert (done.stdout, done.exit_code, done.status) == ("yes\n", 3, CommandStatus.FAILED)
    assert (await environment.execute("sleep 60", timeout=0.3)).status is CommandStatus.TIMEOUT
    failed = await environment.run_test("rm -f given.txt; touch /workspace/left; test -f /workspace/made || exit 4")
    assert tuple(failed) == (False, "", 4)
    assert not await environment.file_exists("/workspace/left"), "a test leaves nothing behind"
    await environment.write_file("/workspace/made", "")
    assert (await environment.run_test(BY_HAND.test_script)).success
    # ElizaOS's heredoc ended here and ran the rest.
    hostile = "a\nELIZAEOF\ntouch /workspace/injected\n'$(touch /workspace/injected)"
    await environment.write_file("/workspace/x 'y", hostile)
    assert await environment.get_file_content("/workspace/x 'y") == hostile
    assert not await environment.file_exists("/workspace/injected")
    assert await environment.directory_exists("/workspace/sub")
    with pytest.raises(SandboxFileError, match="not a folder"):
        await environment.list_directory("/nowhere")
    with pytest.raises(UsageError, match="started already"):
        await environment.start(BY_HAND)


async def act(plugin_name: str, environment: TerminalEnvironment, **given: str) -> ActionOutcome:
    actions = {action.name: action for action in create_terminal_bench_plugin(environment).actions}
    return await actions[plugin_name].handler(None, None, None, {"parameters": given})


@pytest.mark.needs("user-namespaces")
async def test_actions_of_the_plugin_act_in_the_sandbox(environment: TerminalEnvironment) -> None:
    assert (await act("TOUCH", environment, path="/workspace/empty")).success
    assert (await act("READ_FILE", environment, path="/workspace/empty")).text == ""
    assert (await act("WRITE_FILE", environment, path="/workspace/f", content="ACTION: EXECUTE\n")).success
    assert (await act("READ_FILE", environment, path="/workspace/f")).text == "ACTION: EXECUTE\n"
    ran = await act("EXECUTE", environment, command="for i in 1 2; do\n  echo $i\ndone")
    assert (ran.success, ran.text) == (True, "Exit code: 0\nstdout:\n1\n2\n")
    assert (await act("LIST_DIR", environment, path="/workspace")).text == "empty\nf\ngiven.txt"
    refused = await act("READ_FILE", environment, path="/nowhere")
    assert not refused.success
    assert "/nowhere" in (refused.error or "")
    assert (await act("EXECUTE", environment)).error == "EXECUTE needs command"
    (provider,) = create_terminal_bench_plugin(environment).providers
    assert (await provider.get())["text"].startswith("Working directory: /workspace\n")


class Runtime:
    """What a plugin sees of an ElizaOS runtime."""

    def __init__(self, **settings: object) -> None:
        self.settings = settings

    def get_setting(self, name: str) -> object:
        return self.settings.get(name)


async def test_the_plugin_finds_its_environment_through_the_runtime() -> None:
    assert terminal_bench_plugin.name == "terminal-bench"
    assert [action.name for action in TERMINAL_ACTIONS] == ["EXECUTE", "WRITE_FILE", "TOUCH", "READ_FILE", "LIST_DIR"]
    execute = TERMINAL_ACTIONS[0]
    assert not await execute.validate(Runtime())
    assert "is not set" in ((await execute.handler(Runtime())).error or "")
    idle = Runtime(TERMINAL_BENCH_ENVIRONMENT=TerminalEnvironment())
    assert await execute.validate(idle)
    outcome = await execute.handler(idle, None, None, {"parameters": {"command": "ls"}})
    assert outcome.error is not None
    assert "not started" in outcome.error


def test_elizaos_own_classes_need_elizaos() -> None:
    with pytest.raises(MissingExtra, match="elizaos"):
        terminal_bench_plugin.as_elizaos()
