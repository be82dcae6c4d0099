"""Tools of one's own: offered where they belong, run in the sandbox, and no argument becomes code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from running import termarena
from support.model_bench import ModelBench
from support.model_server import ModelServer, said
from termarena.agents.custom_tools import CustomTool, read_tools
from termarena.core.errors import NotFound, UsageError

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
NOTE = CustomTool.model_validate(
    {
        "name": "NOTE",
        "description": "Write a text to a file of the app.",
        "parameters": {"file": {}, "text": {"description": "what to write"}},
        "script": 'printf "%s\\n" "$text" >"/app/$file"; echo noted',
        "categories": ["scripting"],
    }
)
ELSEWHERE = NOTE.model_copy(update={"name": "OTHER", "categories": ("games",)})
HOSTILE = '1"; touch /app/pwned; $(touch /app/pwned) `touch /app/pwned`'


@pytest.mark.needs("user-namespaces")
@pytest.mark.parametrize("agent", ["tools", "tools-text"])
async def test_a_tool_of_the_tasks_category_is_offered_and_its_arguments_are_never_code(
    tmp_path: Path, agent: str
) -> None:
    written = f"ACTION: NOTE\nFILE: two.txt\nTEXT: {HOSTILE}\n\nACTION: NOTE\nFILE: one.txt\nTEXT: 1\n\n"
    written += "ACTION: LIST_DIR\nPATH: ."
    calls = [
        ("NOTE", {"file": "two.txt", "text": HOSTILE}),
        ("NOTE", {"file": "one.txt", "text": "1"}),
        ("LIST_DIR", {"path": "."}),
        ("OTHER", {"file": "x", "text": "x"}),
    ]
    first = said(written) if agent == "tools-text" else said(None, calls=calls)
    last = said("ACTION: TASK_COMPLETE") if agent == "tools-text" else said(None, calls=[("TASK_COMPLETE", {})])
    bench = ModelBench(tmp_path, tmp_path / "home", agent=agent)
    with ModelServer(first, last) as server:
        result = await bench.run(f"openai:toy@{server.url}", tools=(NOTE, ELSEWHERE))
        answers = [one["content"] for one in server.requests[1]["messages"] if one["role"] in ("tool", "user")]
        told = "\n".join(answers)
        offered = str(server.requests[0])
    assert result.outcome == "solved"
    assert "noted" in told
    assert "two.txt" in told
    assert "pwned" not in told
    assert "Write a text to a file of the app." in offered
    assert "OTHER" not in offered


def test_the_file_of_the_page_loads(tmp_path: Path) -> None:
    shown = re.search(r'```json\n(\{"tools".*?)```', PAGE.read_text(), re.DOTALL)
    assert shown is not None
    (tmp_path / "tools.json").write_text(shown[1])
    (tool,) = read_tools(tmp_path / "tools.json")
    assert (tool.name, tool.script, [*tool.parameters]) == ("QUERY", 'sqlite3 /app/data.db "$query"', ["query"])


@pytest.mark.parametrize(
    ("content", "said_so"),
    [
        ("{", "Invalid JSON"),
        ('{"tools": [{"name": "EXECUTE", "description": "", "script": ""}]}', "EXECUTE is a tool already"),
        ('{"tools": [{"name": "shell", "description": "", "script": ""}]}', "tools.0.name"),
        (
            '{"tools": [{"name": "AB", "description": "", "script": "", "parameters": {"LD_PRELOAD": {}}}]}',
            "LD_PRELOAD",
        ),
    ],
)
def test_a_file_that_holds_no_tools_says_where(tmp_path: Path, content: str, said_so: str) -> None:
    (tmp_path / "tools.json").write_text(content)
    with pytest.raises(UsageError, match=said_so):
        read_tools(tmp_path / "tools.json")
    with pytest.raises(NotFound, match="no file of tools"):
        read_tools(tmp_path / "none.json")


def test_a_missing_file_of_tools_is_told_before_anything_starts(tmp_path: Path) -> None:
    done = termarena(
        *("run", "--agent", "tools", "--model", "ollama:x@http://127.0.0.1:9/v1", "--tools", "none.json"),
        *("--out", str(tmp_path / "run")),
        cwd=tmp_path,
    )
    assert (done.returncode, (tmp_path / "run").exists()) == (2, False)
    assert "no file of tools is at none.json" in done.stderr
