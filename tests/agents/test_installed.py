"""Agents that live in the sandbox: installed once, behind the broker, with nothing else in reach."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.model_bench import QUICK
from support.model_server import ModelServer, declined, said
from support.tasks import Made, make_task
from termarena.agents import AgentOptions
from termarena.agents.contract import Ground
from termarena.agents.installed.agent import _conversation
from termarena.agents.installed.description import Description
from termarena.agents.installed.errors import AgentNotInstalled
from termarena.agents.installed.exchanges import ExchangeSteps
from termarena.agents.installed.layers import Layer, Layers, _try_in_image
from termarena.analysis.acts import durations_of, turns_of
from termarena.broker import Exchanged
from termarena.core.run_folder import AttemptFolder
from termarena.core.trajectory import Step, read_trajectory
from termarena.core.trajectory import ToolCall as TrajectoryCall
from termarena.models import ModelLimits, RunModels
from termarena.models.contract import Completion, Message, TokenUsage, ToolCall
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.trials import Trials
from termarena.sandbox import SandboxSpec
from termarena.sandbox.drivers import open_driver
from termarena.sandbox.staging import StartState

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.records import Json
    from termarena.runs.result import TrialResult

KEY = "sk-the-real-key-of-the-provider-0001"
# A whole agent: it asks, does what it is told in a shell, and tells what came of it, until nothing is to be done.
AGENT = """\
import json, os, subprocess, sys, urllib.request
messages = [{"role": "user", "content": open(os.environ["INSTRUCTION_FILE"]).read()}]
while True:
    body = json.dumps({"model": os.environ["MODEL"], "messages": messages}).encode()
    head = {"Authorization": "Bearer " + os.environ["MODEL_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["MODEL_URL"] + "/v1/chat/completions", body, head)
    try:
        said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode())
    messages.append(said)
    for call in said.get("tool_calls") or []:
        done = subprocess.run(json.loads(call["function"]["arguments"])["command"], shell=True, capture_output=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout.decode() + "."})
    if not said.get("tool_calls"):
        print(said["content"])
        break
"""
TOML = f"""\
name = "ours"
version = "1"
requires = ["python3"]
install = '''
echo installed >>"$PREFIX/count"
cat >"$PREFIX/agent.py" <<'END'
{AGENT}
END
'''
command = 'exec python3 "$PREFIX/agent.py"'
"""
WRITE = ("shell", {"command": "echo 1 >/app/one.txt; cat /app/one.txt"})


@dataclass
class House:
    """Tries the task "write 1 to /app/one.txt" with an agent of one description."""

    folder: Path
    home: Path
    runs: int = 0

    def describe(self, text: str = TOML) -> str:
        path = self.folder / "agent.toml"
        path.write_text(text)
        return f"cli:custom:{path}"

    @property
    def attempt(self) -> AttemptFolder:
        return AttemptFolder(self.folder / f"attempt-{self.runs}")

    async def run(
        self,
        model: str,
        *,
        agent: str | None = None,
        limits: ModelLimits | None = None,
        made: Made | None = None,
        driver: str = "namespace",
    ) -> TrialResult:
        self.runs += 1
        task = make_task(self.folder / f"task-{self.runs}", made)
        models = RunModels(limits, patience=QUICK, environ={"OPENAI_API_KEY": KEY})
        options = RunOptions(agent=agent or self.describe(), model=model, driver=driver)
        given = AgentOptions(model=model, models=models)
        try:
            async with Trials(options, home=self.home, run_id="test", agent_options=given) as trials:
                return await trials.run(plan_of(task, 1), task, folder=self.attempt)
        finally:
            await models.aclose()

    def written(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self.attempt.path.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def house(tmp_path: Path, home: Path) -> House:
    return House(tmp_path, home)


async def test_an_agent_in_the_sandbox_solves_through_the_broker(house: House) -> None:
    with ModelServer(said("", calls=[WRITE]), said("It is written."), key=KEY) as server:
        result = await house.run(f"openai:toy@{server.url}")
    assert (result.outcome, result.agent_end) == ("solved", "submitted")
    assert result.agent.message == "It is written."
    assert (result.agent.input_tokens, result.agent.output_tokens) == (200, 20)
    steps = read_trajectory(house.attempt.trajectory).steps
    asked = [step for step in steps if step.llm_call_count == 1]
    assert [step.message for step in asked] == ["", "It is written."]
    assert asked[0].tool_calls is not None
    assert asked[0].tool_calls[0].arguments == WRITE[1]
    assert asked[0].observation is not None
    assert asked[0].observation.results[0].content == "1\n."
    rows = [json.loads(line) for line in house.attempt.messages.read_text().splitlines()]
    assert [row["direction"] for row in rows] == ["sent", "received"] * 2
    assert rows[1]["content"]["status"] == 200


async def test_the_reading_of_its_steps_leaves_out_the_command_that_it_is_itself(house: House) -> None:
    with ModelServer(said("", calls=[WRITE]), said("It is written.")) as server:
        await house.run(f"openai:toy@{server.url}")
    turns = turns_of(read_trajectory(house.attempt.trajectory), durations_of(house.attempt.tool_calls))
    assert [act.text for turn in turns for act in turn.acts] == [WRITE[1]["command"]]
    assert [turn.said for turn in turns] == ["", "It is written."]
    assert all(turn.thinking_s > 0 and turn.at_s is not None for turn in turns)
    assert turns[0].acts[0].duration_s <= (turns[1].at_s or 0) - (turns[0].at_s or 0)


def test_steps_of_a_log_have_the_times_of_the_answers_that_they_are_made_of() -> None:
    seen = ExchangeSteps()
    for content, call in (("I look.", "1"), ("", "2"), ("Done.", None)):
        calls = (ToolCall(call, "shell", "{}"),) if call else ()
        answer = Completion(Message("assistant", content, tool_calls=calls), "stop", TokenUsage(7, 3))
        seen.add(Exchanged("/v1/messages", {}, 200, {}, 0.25, answer), None)
    first, second, third = (step.timestamp for step in seen.steps())
    told = (
        Step(message="a line before"),
        Step(message=" I look.\n", extra={"kept": True}),
        Step(tool_calls=(TrajectoryCall(tool_call_id="toolu_2", function_name="Bash", arguments={}),)),
        Step(message="a line between"),
        Step(message="Done."),
    )
    dated = seen.dated(told)
    assert [step.timestamp for step in dated] == [first, first, second, second, third]
    assert dated[1].extra == {"kept": True, "duration_s": 0.25}
    assert [step.metrics.prompt_tokens if step.metrics else None for step in dated] == [None, 7, 7, None, 7]
    assert [step.message for step in dated] == [step.message for step in told]


def test_a_log_of_very_many_lines_is_not_held_against_every_answer() -> None:
    seen = ExchangeSteps()
    for number in range(2_000):
        answer = Completion(Message("assistant", f"answer {number}"), "stop", TokenUsage(7, 3))
        seen.add(Exchanged("/v1/messages", {}, 200, {}, 0.25, answer), None)
    told = (*(Step(message=f"noise {number}") for number in range(10_000)), Step(message="answer 1999"))
    began_s = time.process_time()
    dated = seen.dated(told)
    assert time.process_time() - began_s < 3  # each against each takes tens of seconds
    assert dated[-1].metrics is not None


async def test_the_real_key_is_nowhere_in_the_sandbox_and_in_no_file(house: House) -> None:
    look = (
        "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; grep -rs real-key /root /home /tmp /etc /run /var /opt"
    )
    with ModelServer(said("", calls=[("shell", {"command": look})]), said("Done."), key=KEY) as server:
        await house.run(f"openai:toy@{server.url}")
        seen = server.requests[1]["messages"][-1]["content"]
    assert "MODEL_KEY=sk-ant-termarena-" in seen
    assert KEY not in seen
    assert KEY not in house.written()
    assert "sk-ant-termarena-" not in house.written()


async def test_nothing_but_the_model_is_in_reach(house: House) -> None:
    tries = (
        'python3 -c "import urllib.request as u\n'
        "for to in ('http://127.0.0.1:{port}/', 'http://1.1.1.1/', 'http://example.com/'):\n"
        "  for proxies in ({{}}, None):\n"
        "    try: u.build_opener(u.ProxyHandler(proxies)).open(to, timeout=5); print('reached', to)\n"
        "    except OSError as error: print('failed')\""
    )
    with ModelServer(said("x")) as other, ModelServer(said("x")) as server:
        command = tries.format(port=other.url.rpartition(":")[2].partition("/")[0])
        server.turns = [said("", calls=[("shell", {"command": command})]), said("Done.")]
        await house.run(f"openai:toy@{server.url}")
        assert server.requests[1]["messages"][-1]["content"] == "failed\n" * 6 + "."


async def test_an_agent_is_installed_once(house: House) -> None:
    with ModelServer(
        said("", calls=[("shell", {"command": "cat $PREFIX/count; touch $PREFIX/x"})]), said("")
    ) as server:
        for _ in range(2):
            server.requests.clear()
            await house.run(f"openai:toy@{server.url}")
            assert server.requests[1]["messages"][-1]["content"] == "installed\n."


async def test_grading_sees_neither_the_agent_nor_its_model(house: House) -> None:
    tests = (
        "#!/bin/sh\ntest -e /opt/termarena/agent/agent.py && exit 1\n"
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 3128), 5)\" && exit 1\n"
        "echo 1 >/logs/verifier/reward.txt\n"
    )
    with ModelServer(said("Done.")) as server:
        result = await house.run(f"openai:toy@{server.url}", made=Made(tests=tests))
    assert result.outcome == "solved"


# How it ends.


async def test_a_spent_budget_ends_an_agent_cleanly(house: House) -> None:
    with ModelServer(said("", calls=[WRITE])) as server:
        result = await house.run(f"openai:toy@{server.url}", limits=ModelLimits(trial_tokens=1400))
    assert (result.outcome, result.agent_end) == ("solved", "resource_limit")
    assert "budget" in result.agent.message


async def test_an_agent_that_goes_on_without_a_budget_is_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.agents.installed.agent.GRACE_S", 0.1)
    stubborn = TOML.replace('exec python3 "$PREFIX/agent.py"', 'python3 "$PREFIX/agent.py"; exec sleep 1000')
    with ModelServer(said("", calls=[WRITE])) as server:
        result = await house.run(
            f"openai:toy@{server.url}",
            agent=house.describe(stubborn),
            limits=ModelLimits(trial_tokens=1400),
            made=Made(agent_s=600),
        )
    assert (result.outcome, result.agent_end) == ("solved", "resource_limit")


async def test_an_agent_that_runs_out_of_time_keeps_what_it_did(house: House) -> None:
    slow = TOML.replace('exec python3 "$PREFIX/agent.py"', "echo 1 >/app/one.txt; exec sleep 1000")
    with ModelServer(said("Done.")) as server:
        result = await house.run(f"openai:toy@{server.url}", agent=house.describe(slow), made=Made(agent_s=6))
    assert (result.outcome, result.agent_end) == ("solved", "timeout")
    assert "sleep 1000" in house.attempt.trajectory.read_text()


async def test_an_agent_that_crashes_is_graded_and_told(house: House) -> None:
    crash = TOML.replace('exec python3 "$PREFIX/agent.py"', "echo 1 >/app/one.txt; echo oh no >&2; exit 3")
    with ModelServer(said("x")) as server:
        result = await house.run(f"openai:toy@{server.url}", agent=house.describe(crash))
    assert (result.outcome, result.agent_end) == ("solved", "error")
    assert result.agent_error is not None
    assert "status 3: oh no" in result.agent_error.message


async def test_a_model_that_is_down_measures_nobody(house: House) -> None:
    with ModelServer(declined(500, "broken")) as server:
        result = await house.run(f"openai:toy@{server.url}")
    assert (result.outcome, result.fault) == ("unscored", "infra")
    assert result.fault_detail is not None
    assert result.fault_detail.kind == "ModelUnavailable"


async def test_the_token_is_worth_nothing_once_the_time_is_over(house: House) -> None:
    linger = (
        "import os, sys, time, urllib.request\n"
        "if os.fork(): sys.exit()\n"
        "os.setsid()\n"
        "head = {'Authorization': 'Bearer ' + os.environ['MODEL_KEY']}\n"
        "while True:\n"
        "  try: urllib.request.urlopen(urllib.request.Request(os.environ['MODEL_URL'] + '/v1/models', headers=head))\n"
        "  except urllib.error.HTTPError as error: open('/app/refused', 'w').write(str(error.code)); break\n"
        "  time.sleep(0.05)\n"
    )
    install = f"install = '''cat >$PREFIX/a.py <<'END'\n{linger}END\n'''\n"
    text = f"name = 'linger'\n{install}command = 'exec python3 $PREFIX/a.py'\n"
    tests = (
        "#!/bin/sh\nfor i in $(seq 600); do [ -s /app/refused ] && break; sleep 0.1; done\n"
        "if grep -qx 401 /app/refused; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
    )
    with ModelServer(said("x")) as server:
        house.runs += 1
        task = make_task(house.folder / "lingering", Made(tests=tests, verifier_s=90))
        options = RunOptions(
            agent=house.describe(text), model=f"openai:toy@{server.url}", driver="namespace", grading="live"
        )
        async with Trials(options, home=house.home, run_id="test") as trials:
            result = await trials.run(plan_of(task, 1), task, folder=house.attempt)
    assert result.outcome == "solved"


# What is told before anything starts.


async def test_an_install_script_that_fails_is_told_with_what_it_said(house: House) -> None:
    text = 'name = "bad"\ninstall = "echo this is missing >&2; exit 7"\ncommand = "true"\n'
    with ModelServer(said("x")) as server:
        result = await house.run(f"openai:toy@{server.url}", agent=house.describe(text))
        assert server.requests == []
    assert result.outcome == "unscored"
    detail = result.fault_detail
    assert detail is not None
    assert (detail.kind, detail.phase, detail.is_retriable) == ("AgentNotInstalled", "prepare", False)
    assert "ended with status 7" in detail.message
    assert detail.log_tail == "this is missing"


async def test_a_command_that_the_sandbox_lacks_is_named(house: House) -> None:
    text = 'name = "bad"\nrequires = ["no-such-tool"]\ninstall = "true"\ncommand = "true"\n'
    with ModelServer(said("x")) as server:
        result = await house.run(f"openai:toy@{server.url}", agent=house.describe(text))
    assert result.fault_detail is not None
    assert "the sandbox has no no-such-tool" in result.fault_detail.message


async def test_trials_that_start_together_share_one_installation(house: House) -> None:
    slow = TOML.replace('name = "ours"', 'name = "shared"').replace("echo installed", "date +%N")
    with ModelServer(said("Done.")) as server:
        options = RunOptions(agent=house.describe(slow), model=f"openai:toy@{server.url}", driver="namespace")
        async with Trials(options, home=house.home, run_id="test") as trials:
            tasks = [make_task(house.folder / f"together-{number}") for number in range(3)]
            results = await asyncio.gather(
                *(
                    trials.run(plan_of(task, 1), task, folder=AttemptFolder(house.folder / f"a{number}"))
                    for number, task in enumerate(tasks)
                )
            )
    assert [result.outcome for result in results] == ["unsolved"] * 3
    layers = [*(house.home / "agents").glob("shared-*/tree/count")]
    assert len(layers) == 1
    assert len(layers[0].read_text().splitlines()) == 1


IMAGE = "FROM debian:bookworm\nWORKDIR /app\n"
# The image has a shell and Perl, no Python and no curl.
IN_PERL = r"""
name = "perl"
requires = ["perl"]
install = '''
cat >"$PREFIX/agent.pl" <<'END'
use strict; use IO::Socket::INET;
my ($host) = $ENV{MODEL_URL} =~ m{//(.*)};
my $socket = IO::Socket::INET->new(PeerAddr => $host) or die "no model: $!";
my $body = '{"messages": [{"role": "user", "content": "hello"}]}';
print $socket "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
print $socket "Authorization: Bearer $ENV{MODEL_KEY}\r\n";
print $socket "Content-Length: " . length($body) . "\r\n\r\n$body";
my $answer = join "", <$socket>;
die $answer unless $answer =~ /the number is (\d)/;
open my $file, ">", "/app/one.txt"; print $file "$1\n"; close $file;
IO::Socket::INET->new(PeerAddr => "1.1.1.1:80", Timeout => 3) and die "there is a network";
print "written\n";
END
'''
command = 'exec perl "$PREFIX/agent.pl"'
"""


@pytest.mark.slow
@pytest.mark.needs("docker")
async def test_an_agent_lives_in_a_container_too(house: House) -> None:
    made = Made(files={"environment/Dockerfile": IMAGE}, agent_s=60)
    with ModelServer(said("the number is 1")) as server:
        agent = house.describe(IN_PERL)
        results = [
            await house.run(f"openai:toy@{server.url}", agent=agent, made=made, driver="docker") for _ in range(2)
        ]
    assert [(result.outcome, result.agent_end) for result in results] == [("solved", "submitted")] * 2
    assert results[0].agent.message == "written"
    assert results[0].agent.input_tokens == 100


@pytest.mark.slow
@pytest.mark.needs("docker", "npm")
async def test_an_image_without_what_an_installer_needs_gets_the_agent_from_this_machine(house: House) -> None:
    portable = IN_PERL.replace('requires = ["perl"]', 'requires = ["npm"]\nportable = "alone"')
    made = Made(files={"environment/Dockerfile": IMAGE}, agent_s=60)
    with ModelServer(said("the number is 1")) as server:
        for agent, outcome in ((portable, "solved"), (portable.replace("alone", "no"), "unscored")):
            text = agent.replace('name = "perl"', f'name = "perl-{outcome}"')
            result = await house.run(f"openai:toy@{server.url}", agent=house.describe(text), made=made, driver="docker")
            assert result.outcome == outcome, result.model_dump_json(indent=1)
        assert result.fault_detail is not None
        assert "the sandbox has no npm" in result.fault_detail.message


MISSING = "node: error while loading shared libraries: libatomic.so.1: cannot open shared object file"


@pytest.mark.parametrize(
    ("portable", "starts", "told"),
    [
        ("alone", "true", None),
        ("alone", f"echo '{MISSING}' >&2; exit 127", "does not start there: .*libatomic.so.1"),
        ("alone", "exit 3", "does not start there: status 3"),
        ("with-node", "true", "does not start there: .*/carried/node: not found"),
    ],
)
async def test_what_is_brought_into_an_image_is_started_there_before_the_trial(
    home: Path, portable: str, starts: str, told: str | None
) -> None:
    words = {"name": "x", "requires": ["npm"], "install": "true", "command": "true"}
    description = Description.model_validate({**words, "portable": portable, "starts": starts})
    driver = open_driver("namespace", home=home, run_id="test")
    try:
        base = await driver.prepare(SandboxSpec())
        trying = _try_in_image(description, lambda: driver.start(base.spec))
        if told is None:
            await trying
            return
        with pytest.raises(AgentNotInstalled, match=f"the image has no npm, and what is brought along {told}"):
            await trying
    finally:
        await driver.aclose()


async def test_an_agent_that_is_started_another_way_is_tried_in_the_image_anew(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found for the old way says nothing of the new one."""
    words = {"name": "x", "requires": ["no-such-command"], "install": "true", "command": "true", "portable": "alone"}
    ways = [Description.model_validate({**words, "starts": starts}) for starts in ("true", "exit 3")]
    (tmp_path / "tree").mkdir()

    async def brought(*_: object) -> Layer:
        return Layer(tmp_path, was_cached=True, install_s=0.0)

    driver, layers = open_driver("namespace", home=home, run_id="test"), Layers(home)
    monkeypatch.setattr(layers, "_brought", brought)
    try:
        spec = (await driver.prepare(SandboxSpec())).spec
        state = StartState("1" * 64, None, False, 0.0, True, spec, spec, _driver=driver)  # noqa: FBT003 - no host root
        ground = Ground(driver, state, spec)
        assert not (await layers.on_ground(ways[0], ground)).was_cached
        with pytest.raises(AgentNotInstalled, match="does not start there: status 3"):
            await layers.on_ground(ways[1], ground)
    finally:
        await driver.aclose()


COMPOSE = """\
services:
  main:
    build: .
  other:
    image: debian:bookworm
    command: ["sleep", "infinity"]
"""


@pytest.mark.parametrize("driver", ["namespace", pytest.param("docker", marks=pytest.mark.needs("docker"))])
@pytest.mark.soak
@pytest.mark.needs("docker")  # whichever driver: its image is there
async def test_an_agent_lives_in_a_task_of_several_services(house: House, driver: str) -> None:
    files = {"environment/Dockerfile": IMAGE, "environment/docker-compose.yaml": COMPOSE}
    with ModelServer(said("the number is 1")) as server:
        result = await house.run(
            f"openai:toy@{server.url}",
            agent=house.describe(IN_PERL),
            made=Made(files=files, agent_s=60),
            driver=driver,
        )
    assert (result.outcome, result.agent_end) == ("solved", "submitted"), result.model_dump_json(indent=1)
    assert result.agent.input_tokens == 100


@pytest.mark.slow
@pytest.mark.needs("small-model")
async def test_an_agent_in_the_sandbox_asks_a_real_model(house: House) -> None:
    brief = TOML.replace('"messages": messages}', '"messages": messages, "max_tokens": 16}').replace("ours", "brief")
    model = f"llamacpp:smollm2@{os.environ['TERMARENA_SMALL_MODEL']}"
    result = await house.run(model, agent=house.describe(brief), made=Made(agent_s=100))
    assert (result.outcome, result.agent_end) == ("unsolved", "submitted")
    assert result.agent.input_tokens
    assert result.agent.output_tokens
    assert 0 < result.agent.output_tokens <= 16
    said = [step.message for step in read_trajectory(house.attempt.trajectory).steps if step.llm_call_count == 1]
    assert len(said) == 1
    assert result.agent.message == str(said[0]).strip()


@pytest.mark.parametrize("odd", [{"stop": 5}, {"tools": [{"type": "function", "function": "x"}]}])
def test_a_request_that_only_the_endpoint_can_read_does_not_stop_the_record(odd: dict[str, Json]) -> None:
    body: dict[str, Json] = {"messages": [{"role": "user", "content": "hello"}], **odd}
    assert _conversation(Exchanged("/v1/chat/completions", body, 200, {}, 0.1)) is None
