"""The proof card: one page on what a task is worth, in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.proof.faults import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.proof.cost import Cost, Limits
    from termarena.proof.discriminating import Survivor
    from termarena.proof.report import Proof

__all__ = ["card_of", "details_of", "plain", "rows_of", "survivors_of"]

SHOWN = 12
SYSTEM = (
    *("/usr/", "/bin/", "/sbin/", "/lib", "/etc/ld.so.", "/etc/ld-musl-"),
    *("/etc/alternatives/", "/etc/perl/", "/etc/python3", "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf"),
)
"""Where the programs are that run tests, and what decides which code they run."""


def card_of(proof: Proof) -> str:
    """The card, as Markdown."""
    return "\n".join(_lines(proof)).rstrip() + "\n"


def _lines(proof: Proof) -> Iterator[str]:
    yield f"# {plain(proof.task_id)}: {proof.letter}"
    yield ""
    yield f"{proof.trials} trials on the {proof.driver} driver, {proof.made_at}; battery {proof.battery}."
    yield ""
    yield from _faults(proof)
    yield "| question | answer |"
    yield "|---|---|"
    for question, answer in rows_of(proof):
        yield f"| {question} | {plain(answer)} |"
    yield ""
    for title, items in details_of(proof):
        yield f"{title}:"
        yield ""
        yield from (f"- {plain(item)}" for item in items)
        yield ""
    yield f"Task `{proof.task_digest}`, solution `{proof.solution_digest[:16]}`."


def _faults(proof: Proof) -> Iterator[str]:
    if not proof.faults:
        yield "Nothing is held against it."
    for fault in proof.faults:
        yield f"- **{fault.rule}**: {plain(RULES.get(fault.rule, fault.rule))}. {plain(fault.message)}"
    yield ""


def rows_of(proof: Proof) -> Iterator[tuple[str, str]]:
    """The questions that were asked, each with its answer."""
    if (solvable := proof.solvable) is not None:
        low, high = solvable.flake_interval
        share = f"{solvable.passes} of {solvable.attempts}"
        yield (
            "Does the reference solution pass?",
            f"{share}; it fails in {100 * low:.0f} % to {100 * high:.0f} % of attempts (95 %)",
        )
    if (trivial := proof.trivial) is not None:
        part = f", but it earns {trivial.reward:g}" if trivial.reward and not trivial.passes else ""
        answer = "yes" if trivial.passes else f"no{part}" if trivial.is_scored else "the tests do not say"
        tests = (
            f"; {len(trivial.passing_tests)} of {trivial.tests} tests pass with nothing done" if trivial.tests else ""
        )
        yield "Does doing nothing pass?", answer + tests
    if (mutants := proof.discriminating) is not None:
        score = "no mutant counts" if mutants.score is None else f"{100 * mutants.score:.0f} %"
        counted = mutants.killed + len(mutants.survivors)
        hung = f" ({mutants.timed_out} took too long)" if mutants.timed_out else ""
        rest = f"{mutants.killed} of {counted} found out{hung}, {mutants.equal} came to the same"
        yield "Are wrong solutions found out?", f"{score}: {rest}"
    if (equivalent := proof.equivalent) is not None:
        yield "Do solutions that mean the same pass?", f"{equivalent.passes} of {equivalent.variants}"
    if (hackable := proof.hackable) is not None:
        sealed, live, raw = (
            sum(getattr(one, grading) for one in hackable.exploits) for grading in ("sealed", "live", "live_raw")
        )
        missing = len(hackable.exploits) - hackable.tried
        untried = f"; {missing} could not be tried" if missing else ""
        earned = f"of {hackable.tried} exploits {sealed} earn one sealed and {live} live"
        unseen = f"{raw} would earn one live, if nobody looked at what they changed"
        answer = "yes" if sealed or live else "no"
        yield "Can a reward be had without solving it?", f"{answer}: {earned}; {unseen}{untried}"
    solved = next((one for one in proof.evidence if one.stage == "solvable" and one.passes), None)
    if solved is not None:
        changed = next((path for path in sorted(solved.state) if path.startswith(SYSTEM)), None)
        answer = "yes, if they install nothing" if changed is None else f"no: the solution changes {changed}"
        yield "Could its tests run on the system of the start?", answer
    if (leaks := proof.leaks) is not None:
        things = "1 thing" if len(leaks.leaks) == 1 else f"{len(leaks.leaks)} things"
        found = things if leaks.leaks else "nothing"
        below = f" and {leaks.layers} layers of its image" if leaks.layers else ""
        unread = "; not all of the image could be looked through" if leaks.unread else ""
        yield (
            "Can the agent find what it must not?",
            f"{found}, in {leaks.files} {'file' if leaks.files == 1 else 'files'} of the start state{below}{unread}",
        )
    if (cost := proof.cost) is not None:
        yield "What does it take?", ", ".join(_needs(cost))
        if cost.slowed_down is not None:
            answer = f"with half the processor it takes {cost.slowed_down:g} times as long"
            yield "Does it depend on the machine's speed?", answer
        yield "Which limits would do?", _limits(cost.suggested)


def _needs(cost: Cost) -> Iterator[str]:
    yield f"{cost.work_s:.1f} s to solve"
    yield f"{cost.grade_s:.1f} s to grade"
    if cost.memory_mb is not None:
        yield f"{cost.memory_mb:g} MiB of memory"
    if cost.disk_mb is not None:
        yield f"{cost.disk_mb:g} MiB of disk"
    asked = f", of which it asks {' and '.join(cost.hosts)}" if cost.hosts else ""
    yield "no network" if cost.network == "none" else f"a network ({cost.network}){asked}"


def _limits(limits: Limits) -> str:
    sizes = [("memory", limits.memory_mb), ("storage", limits.storage_mb)]
    told = [f"{name} {size} MiB" for name, size in sizes if size is not None]
    return ", ".join((f"agent {limits.agent_timeout_s:g} s", f"tests {limits.test_timeout_s:g} s", *told))


def details_of(proof: Proof) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is behind the answers: a title and its items, where there are any."""
    for title, items in _behind(proof):
        more = (f"and {len(items) - SHOWN} more",) if len(items) > SHOWN else ()
        if items:
            yield title, (*items[:SHOWN], *more)


def _behind(proof: Proof) -> Iterator[tuple[str, Sequence[str]]]:
    if proof.trivial is not None:
        yield "Tests that pass with nothing done", proof.trivial.passing_tests
    if proof.solvable is not None:
        yield "Not tried", [f"{one.condition}: {one.why}." for one in proof.solvable.untried]
    if proof.discriminating is not None:
        survivors = proof.discriminating.survivors
        yield "Wrong solutions that pass", [f"{one.what}. No test asserts {one.missing}." for one in survivors]
    if proof.equivalent is not None:
        yield "Solutions that mean the same and do not pass", [f"{one.what}." for one in proof.equivalent.refused]
    if proof.hackable is not None:
        fooling = [one.name for one in proof.hackable.exploits if one.live_raw or one.sealed_raw]
        yield "Exploits that fool the tests where nobody looks at what was changed", fooling
    if proof.leaks is not None:
        yield "Not looked through", proof.leaks.unread


def survivors_of(proof: Proof) -> tuple[Survivor, ...]:
    """The first of the wrong solutions that pass."""
    return proof.discriminating.survivors[:SHOWN] if proof.discriminating is not None else ()


def plain(text: str) -> str:
    """Without what would end a cell or begin markup; the text is a task's."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
