"""What a battle came to: the keys that leaderboards read, a row per trial, and the bounds of what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.battles.orders import Order
    from termarena.battles.session import Tally
    from termarena.core.records import Json
    from termarena.runs.plan import TrialKey
    from termarena.runs.result import TrialSummary
    from termarena.tasks import Task

__all__ = ["result_of", "summary_text"]


def result_of(
    order: Order,
    summaries: Sequence[TrialSummary],
    tallies: Mapping[TrialKey, Tally],
    tasks: Mapping[str, Task],
) -> dict[str, Json]:
    """The result, as JSON. `score` counts solved trials of `max_score`; what could not be scored is in neither place
    hidden: `unscored` says how many, those that were not tried included, and `pass_rate_bounds` what the rate could
    be."""
    total = len(tasks) * order.wanted.attempts
    solved = sum(one.outcome == "solved" for one in summaries)
    not_tried = total - len(summaries)
    unscored = sum(one.outcome == "unscored" for one in summaries) + not_tried
    rows: list[Json] = [_row(one, tallies, tasks) for one in summaries]
    return {
        "score": solved,
        "max_score": total,
        "pass_rate": _percent(solved, total),
        "pass_rate_bounds": [_percent(solved, total), _percent(solved + unscored, total)],
        "unscored": unscored,
        "not_tried": not_tried,
        "agent_errors": sum(one.agent_end == "error" for one in summaries),
        "pass_at_k": {"k": order.wanted.attempts, "rate": _at_k(summaries)},
        "task_rewards": _rewards(summaries),
        "time_used": round(sum(one.duration_s for one in summaries), 3),
        "rows": rows,
        "battle_id": order.battle_id,
        "shard_index": order.wanted.shard_index,
        "num_shards": order.wanted.num_shards,
        "ignored_config": list(order.wanted.unknown),
        "termarena": __version__,
        "task_digests": {name: task.digest for name, task in tasks.items()},
    }


def _percent(part: int, whole: int) -> float:
    return round(100.0 * part / whole, 2) if whole else 0.0


def _at_k(summaries: Sequence[TrialSummary]) -> float:
    """The share of tasks that at least one of the attempts solved."""
    tasks = {one.task_id for one in summaries}
    solved = {one.task_id for one in summaries if one.outcome == "solved"}
    return round(len(solved) / len(tasks), 4) if tasks else 0.0


def _rewards(summaries: Sequence[TrialSummary]) -> dict[str, Json]:
    """Per task its mean reward, or why there is none."""
    found: dict[str, Json] = {}
    for name in sorted({one.task_id for one in summaries}):
        of_task = [one for one in summaries if one.task_id == name]
        rewards = [one.reward for one in of_task if one.outcome != "unscored" and one.reward is not None]
        if rewards:
            found[name] = {"reward": round(sum(rewards) / len(rewards), 6)}
        elif any(one.outcome == "unsolved" for one in of_task):
            found[name] = {"reward": 0.0}
        else:
            found[name] = {"error": of_task[-1].message or of_task[-1].failure_mode}
    return found


def _row(one: TrialSummary, tallies: Mapping[TrialKey, Tally], tasks: Mapping[str, Task]) -> dict[str, Json]:
    tally = next((tally for key, tally in tallies.items() if key == (one.task_id, one.attempt)), None)
    task = tasks.get(one.task_id)
    return {
        "task_id": one.task_id,
        "category": task.metadata.category if task else "unknown",
        "difficulty": task.metadata.difficulty if task else "unknown",
        "attempt": one.attempt,
        "outcome": one.outcome,
        "passed": one.outcome == "solved",
        "reward": one.reward,
        "failure_mode": one.failure_mode,
        "agent_end": one.agent_end,
        "tests_passed": one.tests_passed,
        "tests_total": one.tests_total,
        "duration_sec": round(one.duration_s, 3),
        "n_commands": tally.commands if tally else one.commands,
        "n_turns": tally.turns if tally else None,
        "n_parse_errors": tally.parse_errors if tally else None,
        "timeouts": tally.timeouts if tally else None,
        "transport_retries": tally.transport_retries if tally else None,
        "tokens_in": one.input_tokens,
        "tokens_out": one.output_tokens,
        "message": one.message,
    }


def summary_text(result: Mapping[str, Json]) -> str:
    """One line for people, and no JSON: clients take every part that parses as JSON for a result."""
    unscored = f", {result['unscored']} could not be scored" if result["unscored"] else ""
    return f"Battle {result['battle_id']}: {result['score']} of {result['max_score']} solved{unscored}"
