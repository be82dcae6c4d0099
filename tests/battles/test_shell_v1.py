"""Reading requests out of replies and orders out of messages, whatever they hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termarena.battles import shell_v1
from termarena.battles.orders import Introduction, Order, read_order
from termarena.battles.shell_v1 import Exec, Malformed, Submit, objects_in, read_request
from termarena.core.errors import BattleRefused

steady = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
KINDS = st.sampled_from(["exec_request", "final", "read_file", "write_file", "list_dir", "keys", "submit", "task", ""])


@steady
@given(
    st.dictionaries(st.sampled_from(["kind", "command", "path", "content", "encoding", "keys", "text"]), JSON), KINDS
)
def test_any_object_is_a_request_or_says_why_not(table: dict[str, object], kind: str) -> None:
    found = read_request((json.dumps({**table, "kind": kind}),))
    assert isinstance(found, shell_v1.Request | Malformed)
    if isinstance(found, Malformed):
        assert found.code in ("unknown_kind", "bad_request")


@steady
@given(st.text(), st.text(alphabet=st.characters(exclude_characters="{}")))
def test_a_request_is_found_in_whatever_words(command: str, around: str) -> None:
    request = read_request((f"{around}\n```json\n{json.dumps({'kind': 'exec_request', 'command': command})}\n```",))
    if command.strip() and "\0" not in command:
        assert request == Exec(command)
    else:
        assert isinstance(request, Malformed)


def test_code_before_the_request_does_not_hide_it() -> None:
    code = "\n".join(f"int f{n}(void) {{ return {n}; }}" for n in range(300))
    assert read_request((code + '{"kind": "final", "output": "x"}',)) == Submit("x")


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 400_000,
        '{"a":[1,' * 400_000,
        ('{"a":[' + "1," * 2000) * 500,
        "{" * 4_000_000,
        '{"a": ' + "9" * 1_000_000,
    ],
    ids=["deep", "deep lists", "long and deep", "braces", "a long number"],
)
def test_hostile_text_is_given_up_on(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    decode = json.JSONDecoder.raw_decode

    def counting(self: json.JSONDecoder, text: str, idx: int = 0) -> tuple[object, int]:
        nonlocal looked_at
        try:
            return decode(self, text, idx)
        except json.JSONDecodeError as error:
            looked_at += error.pos - idx
            raise

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counting)
    assert list(objects_in(text)) == []
    assert looked_at < 2 * shell_v1.LONGEST_REPLY + shell_v1.MOST_WORK


@steady
@given(st.text() | JSON.map(json.dumps))
def test_any_message_is_an_order_or_a_refusal_or_nothing(text: str) -> None:
    try:
        found = read_order(text)
    except BattleRefused:
        return
    assert found is None or isinstance(found, Order | Introduction)


def test_the_orders_of_every_generation() -> None:
    white = "http://127.0.0.1:9019"
    start = {
        "type": "battle_start",
        "battle_id": "b",
        "green_battle_context": {"battle_id": "b", "backend_url": "http://127.0.0.1:9000", "agent_name": "g"},
        "opponent_infos": [{"name": "w", "agent_url": white}],
    }
    found = read_order(json.dumps(start))
    assert isinstance(found, Order)
    assert (found.white_url, found.white_name, found.backend_url) == (white, "w", "http://127.0.0.1:9000")
    assert found.is_background
    tagged = read_order(f"Assess <white_agent_url> {white}/ </white_agent_url><env_config>{{}}</env_config>")
    assert isinstance(tagged, Order)
    assert (tagged.white_url, tagged.is_background) == (white, False)
    for text in ('{"participants": {}}', '{"participants": {"a": "x", "b": "y"}}', '{"type": "battle_start"}'):
        with pytest.raises(BattleRefused):
            read_order(text)
