"""`terminal-bench`: the command that ElizaOS users type."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elizaos_terminal_bench.runner import TerminalBenchRunner
    from elizaos_terminal_bench.types import LeaderboardComparison, TerminalBenchConfig, TerminalBenchReport

__all__ = ["main", "parser"]

FAULT: Final = 1
INTERRUPTED: Final = 130
NOT_HERE: Final = {
    "--mock": "nothing pretends to be a sandbox here; --agent-harness always-right tries the reports alone",
    "--one-shot": "there is one kind of shell, and its state stays",
    "--network-mode": "every task says which network it has",
    "--task-agent": "agents that bring their own program are not part of this version yet",
    "--expand-scenarios": "a sentence behind the instruction with the same tests is not another task",
    "--count-scenarios": "there are no scenarios beside the tasks; --dry-run counts those",
    "--validate-scenarios": "there are no scenarios beside the tasks; termarena tasks validate checks those",
}
"""Flags of ElizaOS that are refused, and why."""
EXAMPLES: Final = """\
examples:
  terminal-bench --sample --oracle                the bundled tasks with their reference solutions
  terminal-bench --sample --model gpt-5-mini      a model; its key comes from the environment
  terminal-bench --sample --dry-run               what would run, where, and for how long at most
  terminal-bench --data-path ./tasks --task-ids fix-git --oracle
  terminal-bench --version 2.1 --oracle           after: termarena datasets pull terminal-bench@2.1
"""


class _NotHere(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - argparse's signature
        values: str | Sequence[Any] | None,  # noqa: ARG002 - likewise
        option_string: str | None = None,
    ) -> None:
        parser.error(f"{option_string}: {NOT_HERE[option_string or '']}")


def parser() -> argparse.ArgumentParser:
    """Every flag; docs/elizaos.md says how each differs from ElizaOS's."""
    made = argparse.ArgumentParser(
        prog="terminal-bench",
        description="Run Terminal-Bench tasks with TermArena, in the words of ElizaOS's benchmark.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_tasks(made.add_argument_group("which tasks"))
    _add_agent(made.add_argument_group("which agent"))
    _add_output(made.add_argument_group("what is written and told"))
    for flag in NOT_HERE:
        made.add_argument(flag, nargs="?", action=_NotHere, help=argparse.SUPPRESS)
    return made


def _add_tasks(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--data-path", metavar="PATH", help="a folder of tasks, a tasks.json, a pulled dataset's name")
    group.add_argument("--version", help="of Terminal-Bench, without --data-path (default: 2.0)")
    group.add_argument("--sample", "--use-sample-tasks", action="store_true", help="the bundled tasks")
    group.add_argument("--categories", nargs="+", metavar="NAME")
    group.add_argument("--difficulties", nargs="+", metavar="NAME")
    group.add_argument("--task-ids", nargs="+", metavar="ID", help="ids or globs")
    group.add_argument("--max-tasks", type=int, metavar="N", help="the first N by id")
    group.add_argument("--single", metavar="ID", help="one task; exits 1 unless it is solved")


def _add_agent(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--oracle", action="store_true", help="the reference solutions")
    group.add_argument("--agent-harness", metavar="NAME", help="always-right, always-wrong, random; tools, tools-text")
    group.add_argument("--baseline-random-seed", type=int, default=0, metavar="N")
    group.add_argument("--model", metavar="NAME", help="openai:gpt-5-mini, ollama:qwen3 …; OpenAI's if none is said")
    group.add_argument("--model-provider", metavar="NAME", help="of a --model that does not say it")
    group.add_argument("--temperature", type=float, metavar="T", help="of the model")
    group.add_argument("--max-iterations", type=int, metavar="N", help="how often a model is asked")
    group.add_argument("--standalone", action="store_true", help="without an ElizaOS runtime, as always")
    group.add_argument("--timeout", type=float, metavar="SECONDS", help="for tasks that set the agent no limit")
    group.add_argument("--parallel-tasks", type=int, metavar="N", help="at once (default: what fits this machine)")
    group.add_argument("--local-sandbox", action="store_true", help="the embedded sandbox only, no containers")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--output-dir", default="./benchmark_results/terminal-bench", metavar="FOLDER")
    group.add_argument("--no-markdown", action="store_true")
    group.add_argument("--no-sessions", action="store_true")
    group.add_argument("--no-leaderboard", action="store_true")
    group.add_argument("--dry-run", action="store_true", help="say what would run; start and write nothing")
    group.add_argument("-v", "--verbose", action="store_true", help="tell the start of every trial too")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status.

    0 for a completed run whatever the score, 1 when nothing could be scored or `--single` was not solved, 2 for what
    cannot be asked for, 130 when interrupted.
    """
    given = parser().parse_args(arguments)
    from termarena.cli.output import failure_of, report_failure, say  # noqa: PLC0415 - --help needs none of it
    from termarena.core.errors import TermArenaError  # noqa: PLC0415 - likewise

    _listen()
    try:
        return asyncio.run(_run(given))
    except TermArenaError as error:
        if given.debug:
            say(traceback.format_exc())
        report_failure(failure_of(error), as_json=False)
        return error.exit_status
    except KeyboardInterrupt as stop:
        say(str(stop) or "interrupted")
        return INTERRUPTED


async def _run(given: argparse.Namespace) -> int:
    from elizaos_terminal_bench.runner import TerminalBenchRunner  # noqa: PLC0415 - as above

    runner = TerminalBenchRunner(config=_config(given))
    await runner.setup(use_sample_tasks=given.sample)
    if given.dry_run:
        await _tell_plan(runner, given)
        return 0
    report = await runner.run(task_ids=[given.single] if given.single else None)
    _tell(report, runner.config)
    if given.single:
        return 0 if all(result.success for result in report.results) else FAULT
    return 0 if report.accuracy is not None else FAULT


def _config(given: argparse.Namespace) -> TerminalBenchConfig:
    from elizaos_terminal_bench.config import TerminalBenchConfig  # noqa: PLC0415 - as above
    from termarena.core.errors import UsageError  # noqa: PLC0415 - as above

    if given.version and (given.sample or given.data_path):
        raise UsageError("--version is for the public dataset", hint="leave out --version, or --sample and --data-path")
    return TerminalBenchConfig(
        data_path=given.data_path,
        output_dir=given.output_dir,
        version=given.version or "2.0",
        categories=given.categories,
        difficulties=given.difficulties,
        task_ids=given.task_ids,
        max_tasks=given.max_tasks,
        max_iterations=given.max_iterations,
        timeout_per_task_seconds=given.timeout,
        parallel_tasks=given.parallel_tasks,
        model_name=given.model,
        model_provider=given.model_provider,
        temperature=given.temperature,
        save_sessions=not given.no_sessions,
        generate_markdown=not given.no_markdown,
        compare_leaderboard=not given.no_leaderboard,
        verbose=given.verbose,
        dry_run=given.dry_run,
        oracle=given.oracle,
        local_sandbox=given.local_sandbox,
        agent_harness=given.agent_harness,
        baseline_random_seed=given.baseline_random_seed,
    )


async def _tell_plan(runner: TerminalBenchRunner, given: argparse.Namespace) -> None:
    from termarena.cli.planning import print_plan  # noqa: PLC0415 - as above

    plan = await runner.plan(task_ids=[given.single] if given.single else None)
    print_plan(plan.options, plan.meant, dataset=plan.dataset, json=False)


def _tell(report: TerminalBenchReport, config: TerminalBenchConfig) -> None:
    from termarena.cli.output import print_line, say  # noqa: PLC0415 - as above
    from termarena.reports.telling import duration, percent  # noqa: PLC0415 - as above

    print_line("TERMINAL-BENCH RESULTS")
    about = report.metadata
    model = f" with {about['model']}" if about["model"] != about["agent"] else ""
    print_line(f"Agent: {about['agent']}{model}, on {about['dataset']}")
    print_line(f"Accuracy: {percent(report.accuracy)}")
    unscored = f", {report.unscored_tasks} unscored" if report.unscored_tasks else ""
    print_line(f"Passed: {report.passed_tasks}/{report.total_tasks}{unscored}")
    print_line(f"Total Commands: {report.total_commands}")
    print_line(f"Total Time: {duration(report.evaluation_time_seconds)}")
    for name, number in report.error_categories.items():
        print_line(f"{name}: {number}")
    if report.leaderboard_comparison is not None:
        print_line(_rank_words(report.leaderboard_comparison))
    say(f"Results saved to: {config.output_dir}")


def _rank_words(compared: LeaderboardComparison) -> str:
    if not compared:
        return f"Leaderboard Rank: none ({'; '.join(compared.not_ranked)})"
    low, high = compared.rank_range or (compared.rank, compared.rank)
    return (
        f"Leaderboard Rank: #{compared.rank} of {compared.total_entries} (#{low} to #{high} within the 95 % interval; "
        f"scores of {compared.as_of})"
    )


class _Said(logging.Handler):
    """Log lines on stderr, as the program says everything else."""

    def emit(self, record: logging.LogRecord) -> None:
        from termarena.cli.output import say  # noqa: PLC0415 - as above

        say(record.getMessage())


def _listen() -> None:
    logger = logging.getLogger("elizaos_terminal_bench")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [_Said()]


if __name__ == "__main__":
    sys.exit(main())
