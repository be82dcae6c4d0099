"""Actions written out in replies: every format that the protocol's relatives use, read as it was meant."""

from __future__ import annotations

import pytest

from termarena.agents.text_protocol import read_actions
from termarena.agents.truncation import head_and_tail


def read(text: str) -> list[tuple[str, dict[str, object]]]:
    return [(action.name, dict(action.arguments)) for action in read_actions(text)]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("ACTION: EXECUTE\nCOMMAND: ls -la", "ls -la"),
        ("I shall look.\n\n**ACTION:** EXECUTE\n**COMMAND:** `ls -la`\n\nThat will tell.", "ls -la"),
        ("ACTION: EXECUTE\nCOMMAND: ls -la\n\nThis lists the files.", "ls -la"),
        ("ACTION: RUN\nCOMMAND: cd /app\nmake\nmake test", "cd /app\nmake\nmake test"),
        (
            "ACTION: EXECUTE\nCOMMAND: |\n  cd /app\n  if true; then\n    make\n  fi\n",
            "cd /app\nif true; then\n  make\nfi\n",
        ),
        ("ACTION: EXECUTE\nCOMMAND:\n```bash\nls\n\npwd\n```\nDone.", "ls\n\npwd\n"),
        ("```\nACTION: EXECUTE\nCOMMAND: ls\n```", "ls"),
        ("ACTION: EXECUTE\nCOMMAND: echo \\\n  one", "echo \\\n  one"),
        ("ACTION: EXECUTE\r\nCOMMAND: ls\r\n", "ls"),
        ('ACTION: EXECUTE\nCOMMAND: python3 -c "\nprint(1)\n\nprint(2)\n"', 'python3 -c "\nprint(1)\n\nprint(2)\n"'),
        ("COMMAND: ls", "ls"),
        ("Let me see:\n```bash\nls /app\n```", "ls /app"),
        ("Here is code:\n```python\nprint()\n```\nand now\n```sh\nls\n```", "ls"),
        ("<command>ls &amp;&amp; pwd</command>", "ls && pwd"),
        ("<command>ls && cat <a.txt</command>", "ls && cat <a.txt"),
        ("<command>cd /app</command> and <command>ls</command>", "cd /app\nls"),
        ('Fine: {"command": "ls -l"}', "ls -l"),
        ('{"params": {"BENCHMARK_ACTION": {"tool_name": "SHELL", "command": "id"}}}', "id"),
        ("<response><actions>REPLY,EXECUTE</actions><params><EXECUTE><command>id</command></EXECUTE></params>", "id"),
    ],
)
def test_a_command(text: str, command: str) -> None:
    assert read(text) == [("EXECUTE", {"command": command})]


HEREDOC = "cat > notes.md <<'EOF'\nACTION: TASK_COMPLETE\n\nCOMMAND: rm -rf /\nEOF\ncat notes.md"


def test_a_here_document_with_the_words_of_the_protocol_is_one_command() -> None:
    assert read(f"ACTION: EXECUTE\nCOMMAND: {HEREDOC}\n\nACTION: LIST_DIR\nPATH: /app") == [
        ("EXECUTE", {"command": HEREDOC}),
        ("LIST_DIR", {"path": "/app"}),
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("CONTENT:", ""),
        ("CONTENT: |", ""),
        ("CONTENT:\n```\n```", ""),
        ("CONTENT: hello", "hello\n"),
        ("CONTENT:\n```\n\nhello\n\n```", "\nhello\n\n"),
        ("CONTENT: |\n  a:\n    b\n\n  c\n", "a:\n  b\n\nc\n"),
        ("CONTENT: |\na\n\nb\n", "a\n\nb\n"),
        ("CONTENT:\n```\nACTION: TASK_COMPLETE\nCOMMAND: x\n```", "ACTION: TASK_COMPLETE\nCOMMAND: x\n"),
        ("CONTENT: |\n  ACTION: TASK_COMPLETE\n  PATH: /x", "ACTION: TASK_COMPLETE\nPATH: /x\n"),
        ("CONTENT:\n````\n```\nx\n```\n````", "```\nx\n```\n"),
        ("CONTENT:\n```markdown\n# Use\n```bash\nls\n```\nend\n```", "# Use\n```bash\nls\n```\nend\n"),
    ],
)
def test_a_file_is_written_exactly_as_it_was_given(content: str, expected: str) -> None:
    text = f"ACTION: WRITE_FILE\nPATH: `/app/a.txt`\n{content}\n\nACTION: READ_FILE\nPATH: /app/a.txt\n"
    found = read(text)
    assert found == [
        ("WRITE_FILE", {"path": "/app/a.txt", "content": expected}),
        ("READ_FILE", {"path": "/app/a.txt"}),
    ]


def test_a_file_without_a_content_is_not_an_empty_file() -> None:
    assert read("ACTION: WRITE_FILE\nPATH: /a") == [("WRITE_FILE", {"path": "/a"})]


def test_several_actions_come_in_order_and_end_with_the_task() -> None:
    text = "ACTION: LS\nPATH: /\n\nACTION: EXECUTE\nCOMMAND: id\n\nACTION: DONE\n\nACTION: EXECUTE\nCOMMAND: reboot"
    assert [name for name, _ in read(text)] == ["LIST_DIR", "EXECUTE", "TASK_COMPLETE"]


@pytest.mark.parametrize("text", ["TASK_COMPLETE", "All is well.\n\n**TASK_COMPLETE**", '{"complete": true}'])
def test_an_end_without_the_word_action(text: str) -> None:
    assert read(text) == [("TASK_COMPLETE", {})]


@pytest.mark.parametrize(
    "text",
    ["", "I do not know.", "Do not say TASK_COMPLETE before it is so.", "{", "```python\nprint(1)\n```", "{" * 5000],
)
def test_talk_is_no_action(text: str) -> None:
    assert read(text) == []


def test_long_output_keeps_its_head_and_tail_and_says_how_much_is_missing() -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))
    short = head_and_tail(text, 1000)
    assert short.startswith("line 0\n")
    assert short.endswith("line 9999\n")
    assert len(short) < 1100
    shown = sum(len(line) + 1 for line in short.split("\n") if line.startswith("line "))
    assert f"[… {len(text) - shown} characters, " in short
    assert head_and_tail("short\n", 1000) == "short\n"
    assert "[… 5000 characters are not shown …]" in head_and_tail("a\nb\n", 1000, already_missing=5000)
