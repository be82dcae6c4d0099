"""The tests: what a verdict depends on besides the agent's work, and whether there is a verdict at all."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from termarena.tasks.lint.rule import Rule
from termarena.tasks.lint.shell import Download, downloads, outside_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.lint.rule import Severity
    from termarena.tasks.lint.shell import Statement
    from termarena.tasks.lint.view import Source, Suite, View
    from termarena.tasks.model import Finding

__all__ = ["RULES", "check"]

NETWORK_AT_GRADING = Rule(
    "network-at-grading",
    "warning",
    "the tests need the network",
    "install it in the Dockerfile: an outage would count against the agent",
)
REWARD_NEVER_WRITTEN = Rule(
    "reward-never-written",
    "error",
    "no test file names a reward file",
    "write 0 or 1 to /logs/verifier/reward.txt at the end of tests/test.sh",
)
UNCONDITIONAL_REWARD = Rule(
    "unconditional-reward",
    "error",
    "a reward of 1 is written whatever the tests say",
    "write the reward in the branches of an `if` on the tests' status",
)
REWARD_LOST = Rule(
    "reward-lost-on-failure",
    "warning",
    "`set -e` ends the script at the first failing test, before a reward is written",
    "run the tests after `set +e`, or in an `if`",
)
REWARD_READ = Rule(
    "reward-read",
    "info",
    "the tests read the reward file",
    "compute the reward from the tests alone: the agent could have left a file there",
)
TWO_REWARDS = Rule(
    "two-reward-files",
    "info",
    "both reward.txt and reward.json are written",
    "write one of them; reward.json counts where both exist",
)
SLEEP = Rule("sleep-in-tests", "info", "the tests wait for a fixed time", "poll for what is awaited, with a deadline")
UNSEEDED_RANDOM = Rule(
    "unseeded-random",
    "info",
    "the tests draw random numbers without a seed",
    "seed the generator, so that the same work gets the same verdict",
)
AGENT_CODE = Rule(
    "agent-code-in-grader",
    "info",
    "the tests import the agent's code into their own process",
    "run it in a process of its own: imported code can change the tests",
)
SKIPPED_TEST = Rule(
    "skipped-test",
    "warning",
    "a test that can be skipped, which counts as passed",
    "fail instead of skipping, or delete the test",
)
RULES = (
    NETWORK_AT_GRADING,
    REWARD_NEVER_WRITTEN,
    UNCONDITIONAL_REWARD,
    REWARD_LOST,
    REWARD_READ,
    TWO_REWARDS,
    SLEEP,
    UNSEEDED_RANDOM,
    AGENT_CODE,
    SKIPPED_TEST,
)

_REWARD_READ = re.compile(
    r"(?:^|[;&|(])[ \t]*(?:cat|head|tail|read|source)\b[^;&|\n>]{0,200}reward\.(?:txt|json)"
    r"|-[efs][ \t]+[\"']?\S{0,200}reward\.(?:txt|json)"
)
_REWARD_WRITE = re.compile(r"(?:>[ \t]*[\"']?[^\s;&|]{0,200}|\btee\b[^;&|\n]{0,200})reward\.(?:txt|json)")
_ONE = re.compile(
    r"(?:echo|printf)[ \t]+(?:-n[ \t]+)?[\"']?(?:1(?:\.0+)?|\{\"reward\":[ \t]*1(?:\.0)?\})(?:\\n)?[\"']?[ \t]*>"
)
_BRANCH = re.compile(r"\b(?:if|case|while|for|until)\b|&&|\|\||\$\?|\btrap\b|\bexit\b")
_SET_E = re.compile(r"^set[ \t]+-(?:[a-df-z]*e[a-z]*|o[ \t]+errexit)\b|^#![^\n]*\bsh[ \t]+-\w*e")
_GUARDED = re.compile(r"\|\||&&|^(?:if|while|until|!|elif)\b|^set\b|\bPIPESTATUS\b")
_SLEEP = re.compile(r"^[^\n#\"']*\btime\.sleep\(|^[^\n#\"']*\bsleep\([\d.]", re.MULTILINE)
_SHELL_SLEEP = re.compile(r"(?:^|[;&|(]|\b(?:then|do|else)[ \t])[ \t]*sleep[ \t]+[\d.\"$]")
_LOOP = re.compile(r"\b(?:while|until|for)\b")
_DONE = re.compile(r"\bdone\b")
_LOOP_LINES = 40
_RANDOM = re.compile(
    r"^[^\n#\"']*\b(?:random\.(?:random|randint|choice|choices|sample|shuffle|uniform|gauss|randrange|getrandbits|randbytes)\("
    r"|np\.random\.(?:rand|randn|randint|random|choice|normal|uniform|permutation|shuffle)\(|default_rng\(\)|torch\.rand(?:n|int)?\()",
    re.MULTILINE,
)
_SEED = re.compile(r"\bseed\(|manual_seed|default_rng\([^)\s]|RandomState\(|\bRandom\([^)\s]|random_state")
_SKIP = re.compile(
    r"^[^\n#\"']*(?:\bpytest\.(?:skip|importorskip|xfail)\(|\bmark\.(?:skip|xfail)\b|\bunittest\.skip\(|\bself\.skipTest\()",
    re.MULTILINE,
)
_SKIP_IF = re.compile(r"^[^\n#\"']*(?:\bmark\.skipif\(|\bunittest\.skip(?:If|Unless)\()", re.MULTILINE)
_PYTHON_FETCH = re.compile(
    r"^[^\n#]*\b(?:requests\.(?:get|post|head)|urlopen|urlretrieve|httpx\.get)\([^\n)]{0,200}", re.MULTILINE
)
_PYTHON_INSTALL = re.compile(
    r"[\"'](?:apt-get|apt)[\"' ,]+(?:-\w+[\"' ,]+)*(?:install|update)[\"' ]"
    r"|[\"' ]pip3?[\"' ,]+install[\"' ,]|[\"']git[\"' ,]+clone[\"' ,]+https?:"
)
_RUNS = re.compile(r"\b(?:run|call|Popen|check_output|check_call|system)\([^()]*$")
_CALL_REACH = 80
# Each match costs a count of the lines above it; beyond so many of a kind a file is no test that people wrote.
_MATCHES = 50


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    for suite in view.suites:
        yield from _network(view, suite)
        if suite.tests.verdict in ("reward_file", "reward_pipe"):
            yield from _reward(suite)
        for source in suite.texts():
            if source.is_python:
                yield from _python(source)
            elif "sleep" in source.text:
                yield from _first(SLEEP, source, _shell_sleep(source), "the script sleeps for a fixed time")


def _network(view: View, suite: Suite) -> Iterator[Finding]:
    forbidden = view.grading_network(suite.grading).mode == "none"
    for source in suite.texts():
        found = _python_downloads(source) if source.is_python else downloads(source.statements)
        if found:
            first = next((one for one in found if not one.may_fail), found[0])
            severity: Severity | None = "error" if forbidden and not first.may_fail else None
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            why = "which the grader's policy forbids" if forbidden else "so an outage fails the agent"
            yield NETWORK_AT_GRADING.found(
                source.name,
                f"`{first.command[:80]}`{more} needs the network, {why}",
                line=first.line,
                severity=severity,
            )


def _python_downloads(source: Source) -> list[Download]:
    text = source.text
    found = []
    if "://" in text:
        found += [
            Download(source.line_of(match.end()), f"a request to {host}", may_fail=False)
            for match in islice(_PYTHON_FETCH.finditer(text), _MATCHES)
            if (host := outside_host(match[0]))
        ]
    if "install" in text or "clone" in text or "apt-get" in text:
        for match in islice(_PYTHON_INSTALL.finditer(text), _MATCHES):
            # A test about a Dockerfile looks for such words without running them.
            before = text[max(0, match.start() - _CALL_REACH) : match.start()]
            if _RUNS.search(before):
                command = " ".join(re.findall(r"[\w.-]+", match[0]))
                found.append(Download(source.line_of(match.end()), command, may_fail=False))
    return found


def _reward(suite: Suite) -> Iterator[Finding]:
    entry = suite.entry
    named = [source for source in suite.sources if b"reward.txt" in source.raw or b"reward.json" in source.raw]
    if not named:
        if all(source.is_whole and not source.problem for source in suite.sources):
            yield REWARD_NEVER_WRITTEN.found(entry.name, "neither reward.txt nor reward.json is named in any test file")
    elif entry.is_shell:
        yield from _written(entry, is_alone=named == [entry])
        yield from _first(REWARD_READ, entry, _shell_line(entry, _REWARD_READ), "the script reads a reward file")


def _written(entry: Source, *, is_alone: bool) -> Iterator[Finding]:
    statements = entry.statements
    writes = [number for number, one in enumerate(statements) if _REWARD_WRITE.search(one.text)]
    if not writes:
        return
    texts = [statements[number].text for number in writes]
    if any("reward.txt" in text for text in texts) and any("reward.json" in text for text in texts):
        line = statements[writes[-1]].line
        yield TWO_REWARDS.found(entry.name, "the script writes reward.txt and reward.json", line=line)
    if is_alone and all(_ONE.search(text) for text in texts) and not _branches(statements[: writes[-1] + 1]):
        line = statements[writes[-1]].line
        yield UNCONDITIONAL_REWARD.found(
            entry.name, "the script writes 1 without asking how the tests ended", line=line
        )
    yield from _lost(entry, writes[0])


def _branches(statements: list[Statement]) -> bool:
    return any(_BRANCH.search(one.text.replace("|| true", "").replace("|| :", "")) for one in statements)


def _lost(entry: Source, first_write: int) -> Iterator[Finding]:
    """`set -e`, then a bare command, then a look at `$?` that is never reached when the command fails."""
    stops = _SET_E.match(entry.text.split("\n", 1)[0]) is not None
    before: Statement | None = None
    for statement in entry.statements[: first_write + 1]:
        text = statement.text
        if text.startswith(("set +e", "set +o errexit")):
            stops = False
        elif "trap " in text:
            return
        elif _SET_E.match(text):
            stops = True
        elif stops and before is not None and "$?" in text and _is_bare(before.text):
            yield REWARD_LOST.found(entry.name, f"a failure of `{before.text[:60]}` ends the script", line=before.line)
            return
        before = statement


def _is_bare(text: str) -> bool:
    """Whether this runs tests with nothing to catch their failure."""
    return not _GUARDED.search(text) and any(word in text for word in ("test", "python", "check", "uv"))


def _python(source: Source) -> Iterator[Finding]:
    text = source.text
    if "sleep(" in text:
        yield from _first(SLEEP, source, _python_sleep(source), "the tests sleep for a fixed time")
    if ("random" in text or "torch" in text) and not _SEED.search(text):
        yield from _first(
            UNSEEDED_RANDOM, source, _python_line(source, _RANDOM), "random numbers are drawn without a seed"
        )
    if "skip" in text or "xfail" in text:
        yield from _skips(source)
    yield from _agent_code(source)


def _skips(source: Source) -> Iterator[Finding]:
    line = _python_line(source, _SKIP)
    if line is not None:
        yield SKIPPED_TEST.found(source.name, "a test may be skipped, and a skipped test counts as passed", line=line)
        return
    line = _python_line(source, _SKIP_IF)
    if line is not None:
        # Such a condition is most often about the grader's machine, which the agent cannot choose.
        message = "a test is skipped on some machines, and a skipped test counts as passed"
        yield SKIPPED_TEST.found(source.name, message, line=line, severity="info")


def _agent_code(source: Source) -> Iterator[Finding]:
    text = source.text
    for mark in ("sys.path.insert(", "sys.path.append(", "spec_from_file_location("):
        place = text.find(mark)
        if place >= 0:
            shown = text[place : place + 200].split("\n", 1)[0]
            if "/tests" not in shown and "__file__" not in shown:
                yield AGENT_CODE.found(
                    source.name, f"`{shown[:80]}` loads code that the agent can write", line=source.line_of(place)
                )
                return


def _first(rule: Rule, source: Source, line: int | None, message: str) -> Iterator[Finding]:
    if line is not None:
        yield rule.found(source.name, message, line=line)


def _shell_sleep(source: Source) -> int | None:
    """The first sleep outside a loop; in a loop it is the pause between two looks."""
    depth = 0
    for one in source.statements:
        opened = bool(_LOOP.search(one.text))
        if not depth and not opened and _SHELL_SLEEP.search(one.text):
            return one.line
        depth = max(0, depth + opened - bool(_DONE.search(one.text)))
    return None


def _python_sleep(source: Source) -> int | None:
    """Likewise, by indentation: the lines above that are indented less, up to the function's own."""
    lines = source.text.split("\n")
    for match in islice(_SLEEP.finditer(source.text), _MATCHES):
        number = source.line_of(match.end())
        indent = _indent(lines[number - 1])
        for above in lines[max(0, number - _LOOP_LINES) : number - 1][::-1]:
            if above.strip() and _indent(above) < indent:
                indent = _indent(above)
                if above.lstrip().startswith(("for ", "while ", "async for ")):
                    break
        else:
            return number
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _python_line(source: Source, pattern: re.Pattern[str]) -> int | None:
    match = pattern.search(source.text)
    return None if match is None else source.line_of(match.end())


def _shell_line(source: Source, pattern: re.Pattern[str]) -> int | None:
    return next((one.line for one in source.statements if pattern.search(one.text)), None)
