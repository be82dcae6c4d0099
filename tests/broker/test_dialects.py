"""Every interface is read, screened, answered and streamed; official forms in, the same conversation out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from termarena.broker.contract import Asked, Dialect, Refusal
from termarena.broker.dialects.chat import ChatDialect
from termarena.broker.dialects.gemini import GeminiDialect
from termarena.broker.dialects.messages import MessagesDialect
from termarena.broker.dialects.responses import ResponsesDialect
from termarena.broker.sse import EventReader
from termarena.models.contract import Completion, Message, TokenUsage, ToolCall

CALL = {"command": "ls -l"}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
# The same conversation in the words of each interface: instructions, a question, a call, its result.
CONVERSATIONS: dict[str, dict[str, Any]] = {
    "chat": {
        "model": "any",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is here?"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": json.dumps(CALL)}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "one.txt"},
        ],
        "tools": [{"type": "function", "function": {"name": "shell", "description": "run", "parameters": SCHEMA}}],
    },
    "responses": {
        "model": "any",
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is here?"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": "…"},
            {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": json.dumps(CALL)},
            {"type": "function_call_output", "call_id": "c1", "output": "one.txt"},
        ],
        "tools": [{"type": "function", "name": "shell", "description": "run", "parameters": SCHEMA}],
    },
    "messages": {
        "model": "any",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "What is here?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "x"},
                    {"type": "tool_use", "id": "c1", "name": "shell", "input": CALL},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "one.txt"}]},
        ],
        "tools": [{"name": "shell", "description": "run", "input_schema": SCHEMA}],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "What is here?"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "shell", "args": CALL}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "shell", "response": "one.txt"}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "shell", "description": "run", "parameters": SCHEMA}]}],
    },
}
DIALECTS: dict[str, Dialect] = {
    "chat": ChatDialect(),
    "responses": ResponsesDialect(),
    "messages": MessagesDialect(),
    "gemini": GeminiDialect(),
}
ANSWER = Completion(
    Message("assistant", "I look: ä€😀.", tool_calls=(ToolCall("toolu_1", "shell", json.dumps(CALL)),)),
    "tool_calls",
    TokenUsage(120, 30, 20),
    model="m-1",
    request_id="r-1",
)


def _asked(name: str, **more: object) -> Asked:
    body = {**CONVERSATIONS[name], **more}
    return Asked(DIALECTS[name], "/x", body, wants_stream=True)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_conversation_is_the_same_in_every_interface(name: str) -> None:
    request = DIALECTS[name].read(CONVERSATIONS[name])
    assert [(message.role, message.content) for message in request.messages] == [
        ("system", "Be brief."),
        ("user", "What is here?"),
        ("assistant", ""),
        ("tool", "one.txt"),
    ]
    call = request.messages[2].tool_calls[0]
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "shell", CALL)
    assert request.messages[3].tool_call_id == "c1"
    assert [(tool.name, tool.description, tool.parameters) for tool in request.tools] == [("shell", "run", SCHEMA)]


@pytest.mark.parametrize("name", DIALECTS)
def test_an_answer_comes_back_as_it_was_given_whole_and_streamed(name: str) -> None:
    dialect = DIALECTS[name]
    asked = _asked(name, stream_options={"include_usage": True})
    whole = dialect.completion(dialect.document(ANSWER, asked))
    gatherer = dialect.gatherer(asked)
    for event in EventReader().feed(b"".join(dialect.events(ANSWER, asked))):
        assert gatherer.add(event)
    assert gatherer.is_whole
    for said in (whole, dialect.completion(gatherer.document)):
        assert said.message.content == ANSWER.message.content
        assert [(call.name, json.loads(call.arguments)) for call in said.message.tool_calls] == [("shell", CALL)]
        assert said.finish == "tool_calls"
        assert (said.usage.input_tokens, said.usage.output_tokens, said.usage.cached_tokens) == (120, 30, 20)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_in_single_bytes_is_read_the_same(name: str) -> None:
    dialect = DIALECTS[name]
    stream = b"".join(dialect.events(ANSWER, _asked(name)))
    reader, gatherer = EventReader(), dialect.gatherer(_asked(name))
    for place in range(len(stream)):
        for event in reader.feed(stream[place : place + 1]):
            gatherer.add(event)
    assert dialect.completion(gatherer.document).message.content == ANSWER.message.content


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_that_breaks_off_is_not_whole(name: str) -> None:
    dialect = DIALECTS[name]
    stream = b"".join(dialect.events(ANSWER, _asked(name)))
    gatherer = dialect.gatherer(_asked(name))
    for event in EventReader().feed(stream[: len(stream) // 3]):
        gatherer.add(event)
    assert not gatherer.is_whole


def test_usage_that_was_not_asked_for_is_not_shown() -> None:
    gatherer = ChatDialect().gatherer(_asked("chat"))
    stream = b"".join(ChatDialect().events(ANSWER, _asked("chat", stream_options={"include_usage": True})))
    shown = [event.data for event in EventReader().feed(stream) if gatherer.add(event)]
    assert not any('"usage"' in data for data in shown)
    assert gatherer.document["usage"]["prompt_tokens"] == 120


WEB_TOOLS = [
    ("chat", {"tools": [{"type": "web_search_preview"}]}, "web_search_preview"),
    ("chat", {"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
    ("chat", {"plugins": [{"id": "web"}]}, "plugins"),
    ("chat", {"search_parameters": {"mode": "on"}}, "search_parameters"),
    ("chat", {"enable_search": True}, "enable_search"),
    ("chat", {"models": ["acme/larger"]}, "models"),
    ("responses", {"tools": [{"type": "web_search"}]}, "web_search"),
    ("responses", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, "code_interpreter"),
    ("responses", {"tools": [{"type": "some_tool_of_next_year"}]}, "some_tool_of_next_year"),
    ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
    ("messages", {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, "web_fetch_20250910"),
    ("messages", {"tools": [{"type": "code_execution_20250825", "name": "x"}]}, "code_execution_20250825"),
    ("gemini", {"tools": [{"googleSearch": {}}]}, "googleSearch"),
    ("gemini", {"tools": [{"urlContext": {}}]}, "urlContext"),
]


@pytest.mark.parametrize(("name", "more", "stripped"), WEB_TOOLS)
def test_tools_of_the_provider_are_taken_out_and_told(name: str, more: dict[str, Any], stripped: str) -> None:
    own = CONVERSATIONS[name].get("tools", [])
    body = {**CONVERSATIONS[name], **more, "tools": own + more.get("tools", [])}
    screened = DIALECTS[name].screen(body)
    assert screened.stripped == (stripped,)
    assert screened.body["tools"] == own
    assert stripped not in json.dumps(screened.body)


@pytest.mark.parametrize(
    ("name", "more", "stripped"),
    [
        ("chat", {"n": 5}, "n=5"),
        ("chat", {"best_of": 3}, "best_of=3"),
        ("chat", {"n": [1] * 50}, "n=[1, 1, 1, 1, 1, 1, 1"),
        ("gemini", {"generationConfig": {"candidateCount": 8}}, "candidateCount=8"),
        ("gemini", {"generation_config": {"candidate_count": 8}}, "candidate_count=8"),
    ],
)
def test_several_answers_to_one_request_are_not_asked_for(name: str, more: dict[str, Any], stripped: str) -> None:
    known: dict[str, Any] = {"generationConfig": {"maxOutputTokens": 100}} if name == "gemini" else {"max_tokens": 100}
    settings = {
        key: {**known.get(key, {}), **value} if isinstance(value, dict) else value for key, value in more.items()
    }
    body = {**CONVERSATIONS[name], **known, **settings}
    screened = DIALECTS[name].screen(body)
    assert screened.stripped == (stripped,)
    assert stripped.partition("=")[0] not in {**screened.body, **screened.body.get("generationConfig", {})}
    assert not screened.body.get("generation_config")
    assert {**screened.body, **known} == screened.body
    one = {key: dict.fromkeys(value, 1) if isinstance(value, dict) else 1 for key, value in more.items()}
    assert DIALECTS[name].screen({**CONVERSATIONS[name], **one}).stripped == ()


@pytest.mark.parametrize("name", DIALECTS)
def test_what_asks_for_nothing_special_stays_as_it_is(name: str) -> None:
    assert DIALECTS[name].screen(CONVERSATIONS[name]) == (CONVERSATIONS[name], ())


AWAY = "https://example.com/x.png"
ADDRESSES = [
    ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": AWAY}}]}]}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": AWAY}}]}]}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": AWAY}}]}]}),
    ("chat", {"tools": [{"type": "mcp", "server_url": AWAY}]}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": AWAY}]}]}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": AWAY}]}]}),
    ("responses", {"tools": [{"type": "mcp", "server_label": "x", "server_url": AWAY}]}),
    ("responses", {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp", "server_url": AWAY}]}]}),
    ("responses", {"prompt": {"id": "p"}}),
    ("messages", {"mcp_servers": [{"type": "url", "url": AWAY, "name": "x"}]}),
    (
        "messages",
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": AWAY}}]}]},
    ),
    (
        "messages",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c",
                            "content": [{"type": "document", "source": {"type": "url", "url": AWAY}}],
                        }
                    ],
                }
            ]
        },
    ),
    ("gemini", {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": AWAY}}]}]}),
    ("gemini", {"systemInstruction": None, "system_instruction": {"parts": [{"file_data": {"file_uri": AWAY}}]}}),
    ("gemini", {"cachedContent": "cachedContents/1"}),
    ("gemini", {"cached_content": "cachedContents/1"}),
    (
        "gemini",
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "parts": [{"fileData": {"fileUri": AWAY}}]}}]}]},
    ),
    ("gemini", {"tools": [{"mcpServers": [{"url": AWAY}]}]}),
]


@pytest.mark.parametrize(("name", "more"), ADDRESSES)
def test_what_lies_at_an_address_is_refused(name: str, more: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="cannot be used here"):
        DIALECTS[name].screen({**CONVERSATIONS[name], **more})


def test_what_a_tool_was_called_with_may_look_like_anything() -> None:
    call = {"type": "tool_use", "id": "c", "name": "write", "input": {"source": {"type": "url"}, "file_id": "1"}}
    body = {**CONVERSATIONS["messages"], "messages": [{"role": "assistant", "content": [call]}]}
    assert MessagesDialect().screen(body).body == body


def test_what_a_function_returned_may_look_like_anything() -> None:
    returned = {"functionResponse": {"name": "look", "response": {"image_url": AWAY, "file_id": "1"}}}
    body = {**CONVERSATIONS["gemini"], "contents": [{"role": "user", "parts": [returned]}]}
    assert DIALECTS["gemini"].screen(body).body == body


def test_a_namespace_hides_no_tool_of_the_provider() -> None:
    own = {"type": "function", "name": "look", "parameters": {}}
    space = {"type": "namespace", "name": "n", "tools": [own, {"type": "web_search"}]}
    screened = DIALECTS["responses"].screen({**CONVERSATIONS["responses"], "tools": [space]})
    assert screened.stripped == ("web_search",)
    assert screened.body["tools"] == [{**space, "tools": [own]}]


def test_a_tool_in_a_namespace_is_called_by_both_names() -> None:
    own = {"type": "function", "name": "look", "parameters": {}}
    body = {"input": "hello", "tools": [{"type": "namespace", "name": "mcp__n", "tools": [own]}, {**own, "name": "ls"}]}
    dialect = ResponsesDialect()
    assert [tool.name for tool in dialect.read(body).tools] == ["mcp__n__look", "ls"]
    calls = (ToolCall("c1", "mcp__n__look", "{}"), ToolCall("c2", "ls", "{}"))
    answer = Completion(Message("assistant", "", tool_calls=calls), "tool_calls")
    items = dialect.document(answer, _asked("responses", tools=body["tools"]))["output"]
    assert [(item["name"], item.get("namespace")) for item in items] == [("look", "mcp__n"), ("ls", None)]
    again = dialect.read({"input": [*items, {"role": "user", "content": "go on"}]})
    assert [call.name for message in again.messages for call in message.tool_calls] == ["mcp__n__look", "ls"]


def test_an_image_in_the_request_itself_may_pass() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = {"messages": [{"role": "user", "content": [part]}]}
    assert ChatDialect().screen(body).body == body


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("body", [{}, {"messages": 1, "input": 1, "contents": 1}, {"messages": ["x"], "contents": [1]}])
def test_what_is_no_conversation_is_refused(name: str, body: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        DIALECTS[name].read(body)


def test_a_free_form_tool_is_called_with_its_text() -> None:
    asked = _asked("responses", tools=[{"type": "custom", "name": "apply_patch"}])
    call = ToolCall("c1", "apply_patch", json.dumps({"input": "*** Begin Patch"}))
    answer = Completion(Message("assistant", "", tool_calls=(call,)), "tool_calls")
    item = ResponsesDialect().document(answer, asked)["output"][0]
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin Patch")
    request = ResponsesDialect().read({"input": [item | {"output": "ok"}, {"role": "user", "content": "go on"}]})
    assert json.loads(request.messages[0].tool_calls[0].arguments) == {"input": "*** Begin Patch"}


@pytest.mark.parametrize(
    ("asked", "settings"),
    [
        ({}, {"maxOutputTokens": 50}),
        ({"generationConfig": {"maxOutputTokens": 7, "seed": 1}}, {"maxOutputTokens": 7, "seed": 1}),
        ({"generation_config": {"max_output_tokens": 9000}}, {"maxOutputTokens": 50}),
        ({"generationConfig": {"max_output_tokens": 9000, "topK": 3}}, {"maxOutputTokens": 50, "topK": 3}),
        ({"generationConfig": "x", "generation_config": {"max_output_tokens": 9}}, {"maxOutputTokens": 9}),
    ],
)
def test_googles_limit_is_found_in_either_spelling(asked: dict[str, Any], settings: dict[str, Any]) -> None:
    shortened = GeminiDialect().shortened({**asked, "contents": []}, 50)
    assert shortened == {"contents": [], "generationConfig": settings}


@pytest.mark.parametrize(
    ("most", "thinking"),
    [
        (60_000, {"type": "enabled", "budget_tokens": 31_999}),
        (8_000, {"type": "enabled", "budget_tokens": 4_000}),
        (1_100, {"type": "enabled", "budget_tokens": 1_024}),
        (1_024, None),
    ],
)
def test_a_shorter_message_has_shorter_thoughts(most: int, thinking: dict[str, Any] | None) -> None:
    body = {"max_tokens": 32_000, "thinking": {"type": "enabled", "budget_tokens": 31_999}}
    shortened = MessagesDialect().shortened(body, most)
    assert (shortened["max_tokens"], shortened.get("thinking")) == (min(most, 32_000), thinking)
