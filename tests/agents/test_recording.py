"""What is kept of an agent's work, and what is not."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from agents.conftest import SECRETS
from termarena.agents.recording import STEP_TEXT_BYTES, Call, Recording, Told
from termarena.core.records import read_record
from termarena.core.trajectory import TrajectoryAgent, read_trajectory

if TYPE_CHECKING:
    from termarena.core.run_folder import AttemptFolder

AGENT = TrajectoryAgent(name="tester", version="1")
SECRET = SECRETS["EXAMPLE_API_KEY"]
HEADER = '{"version": 2, "width": 80, "height": 24}\n'


# Steps.


@pytest.mark.parametrize("shift", range(0, len(SECRET) + 2, 4))
async def test_no_half_of_a_secret_stays_at_the_cut(recording: Recording, shift: int) -> None:
    half = STEP_TEXT_BYTES // 2
    output = b"x" * (half - shift) + SECRET.encode() + b"y" * 100_000 + SECRET.encode() + b"z" * (half - shift)
    recording.add(Call("exec", {"script": output.decode()}), Told(output=output, output_bytes=len(output)))
    (step,) = recording.finish().steps
    kept = step.model_dump_json()
    assert "xxxx" in kept
    assert "zzzz" in kept
    for part in (SECRET[:6], SECRET[-6:], SECRET[4:10]):
        assert part not in kept


async def test_what_json_cannot_hold_is_kept_as_well_as_it_can(recording: Recording, folder: AttemptFolder) -> None:
    odd = {
        "argv": ["a\udcffb"],
        "timeout_s": float("inf"),
        "env": {"k\udcff": "v"},
        "script": "\udcff",
        "stdin": b"\xff",
    }
    recording.add(Call("exec", odd), Told(error="bad \udcff"))
    recording.finish().save(folder, AGENT)
    (step,) = read_trajectory(folder.trajectory).steps
    assert step.tool_calls is not None
    kept = step.tool_calls[0].arguments
    assert kept == {"argv": ["a?b"], "timeout_s": "inf", "env": {"k?": "v"}, "script": "\ufffd", "stdin_base64": "/w=="}
    assert read_record(folder.tool_calls, "tool_calls")["counts"] == {"exec": 1}


async def test_a_secret_among_bytes_is_not_hidden_by_their_encoding(recording: Recording) -> None:
    recording.add(Call("write", {"content": b"\xff" + SECRET.encode()}), Told())
    (step,) = recording.finish().steps
    assert step.tool_calls is not None
    kept = base64.b64decode(step.tool_calls[0].arguments["content_base64"])
    assert kept == b"\xff[secret EXAMPLE_API_KEY]"
    assert step.tool_calls[0].extra == {"cut_arguments": {"content": 1 + len(SECRET)}}


async def test_a_long_argument_is_cut_and_its_size_told(recording: Recording) -> None:
    recording.add(Call("write", {"content": b"a" * 1_000_000}), Told())
    record = recording.finish()
    assert record.steps[0].tool_calls is not None
    (call,) = record.steps[0].tool_calls
    assert call.extra == {"cut_arguments": {"content": 1_000_000}}
    assert len(call.arguments["content"]) < STEP_TEXT_BYTES + 100
    assert len(record.calls[0].arguments["content"]) < 2200


async def test_all_output_together_has_an_end(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_text_room", 1000)
    for _ in range(5):
        recording.add(Call("read", {}), Told(output=b"o" * 600, output_bytes=600))
    record = recording.finish()
    assert len(record.problems) == 1
    assert sum(len(step.model_dump_json()) for step in record.steps) < 5000
    assert [row.output_bytes for row in record.calls] == [600] * 5


async def test_messages_end_at_their_limit_and_disturb_nobody(
    recording: Recording, folder: AttemptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termarena.agents.recording.MESSAGES_BYTES", 500)
    for _ in range(20):
        recording.message("sent", "x" * 50)
    assert folder.messages.stat().st_size <= 500
    assert recording.finish().problems == ("messages.jsonl ends at its limit of 500 bytes",)


async def test_an_agent_that_did_nothing_has_calls_and_no_trajectory(
    recording: Recording, folder: AttemptFolder
) -> None:
    recording.finish().save(folder, AGENT)
    assert read_record(folder.tool_calls, "tool_calls")["calls"] == []
    assert not folder.trajectory.exists()
