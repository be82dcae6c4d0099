"""Pages of the documentation that are made from the code, the error tree, the schemas, the examples and benchmarks/.

Each function gives Markdown; `site_hook.py` hands it to MkDocs. None of it is committed, so none of it can be old.
"""

from __future__ import annotations

import inspect
import json
import re
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Output, kept, shown, told_load
from termarena.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click import Command

__all__ = ["ROOMS", "ROOT", "generated_pages"]

ROOT = Path(__file__).resolve().parent.parent

# What a program imports of each room: its door, or, where a room has none, the modules that hold its contract.
ROOMS: dict[str, tuple[str, ...]] = {
    "tasks": ("termarena.tasks",),
    "sandbox": ("termarena.sandbox",),
    "models": ("termarena.models",),
    "broker": ("termarena.broker",),
    "agents": ("termarena.agents",),
    "grading": ("termarena.grading",),
    "runs": ("termarena.runs.running", "termarena.runs.reading", "termarena.runs.outcome", "termarena.runs.listening"),
    "stats": ("termarena.stats",),
    "reports": ("termarena.reports",),
    "analysis": ("termarena.analysis",),
    "shell": ("termarena.shell.calls", "termarena.shell.effects", "termarena.shell.statements"),
    "proof": ("termarena.proof.proving", "termarena.proof.report", "termarena.proof.evidence"),
    "forge": ("termarena.forge.transcript", "termarena.forge.working"),
    "battles": ("termarena.battles.session", "termarena.battles.white_agent", "termarena.battles.referee"),
    "arena": ("termarena.arena.config", "termarena.arena.serving"),
    "core": ("termarena.core.trajectory", "termarena.core.run_folder", "termarena.core.records"),
}

# The files that programs read: where each lies, and the type that reads and writes it.
SCHEMAS: dict[str, tuple[str, str]] = {
    "run-config": ("`config.lock.json` of a run", "termarena.runs.config_lock:ConfigLock"),
    "trial-result": ("`result.json` of an attempt", "termarena.runs.result:TrialResult"),
    "trajectory": ("`trajectory.json` of an attempt (ATIF 1.7)", "termarena.core.trajectory:Trajectory"),
    "report": ("`report.json` of a run, and `termarena report --format json`", "termarena.reports:Report"),
    "task-proof": ("`proof.json` of a task", "termarena.proof.report:Proof"),
    "proof-summary": ("`summary.json` beside the proofs of a dataset", "termarena.proof.summary:Summary"),
    "bundle": ("`bundle.json`, the first file of a packed run", "termarena.runs.bundle:Manifest"),
    "dataset-lock": ("the lock of a dataset", "termarena.tasks:DatasetLock"),
    "transcript": ("what `forge read --json` makes of a recording", "termarena.forge.transcript:Transcript"),
    "recording": ("`info.json` beside a recording on a forge's shelf", "termarena.forge.retrieving.shelf:Origin"),
    "forge-set": ("`lineage.json` of a set that the forge gave away", "termarena.forge.exporting:LineageOfSet"),
}


def generated_pages() -> dict[str, str]:
    """Every page by its address below docs/; a schema is a JSON file beside its page."""
    pages = {f"reference/cli/{name}.md": _command_page(name) for name in COMMANDS}
    pages |= {f"reference/python/{room}.md": _room_page(room, modules) for room, modules in ROOMS.items()}
    pages |= {f"reference/schemas/{kind}.json": _schema_text(place) for kind, (_, place) in SCHEMAS.items()}
    pages |= dict(_performance_pages())
    return pages | {
        "reference/rest.md": _rest_page(),
        "reference/files.md": _files_page(),
        "reference/errors.md": _errors_page(),
        "reference/settings.md": _settings_page(),
        "examples.md": _examples_page(),
        "changes.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
    }


def _fence(text: str, language: str = "text") -> str:
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{language}\n{text.rstrip()}\n{mark}\n"


def _command_page(name: str) -> str:
    from typer.main import get_command  # noqa: PLC0415 - beside the import of the commands that it reads

    command = get_command(import_module(COMMANDS[name].module).app)
    helps = "\n".join(f"## `{path}`\n\n{_fence(text)}" for path, text in _helps(command, f"termarena {name}"))
    return f"# termarena {name}\n\n{COMMANDS[name].help}\n\n{helps}"


def _helps(command: Command, path: str) -> Iterator[tuple[str, str]]:
    """The help of a command and of everything below it, in 82 columns, for which a page has room."""
    from typer._click import Context  # noqa: PLC0415 - as above

    context = Context(command, info_name=path, terminal_width=82, max_content_width=82)
    yield path, context.get_help()
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from _helps(below, f"{path} {name}")


def _room_page(room: str, modules: tuple[str, ...]) -> str:
    about = " ".join((import_module(f"termarena.{room}").__doc__ or "").split("\n\n")[0].split())
    parts = [f"## `{module}`\n\n::: {module}\n" if len(modules) > 1 else f"::: {module}\n" for module in modules]
    return f"# termarena.{room}\n\n{about}\n\n" + "\n".join(parts)


def _type_at(place: str) -> Any:  # noqa: ANN401 - a pydantic model or a dataclass, as the table says
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _schema(place: str) -> dict[str, Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - the commands' pages need none of it

    return TypeAdapter(_type_at(place)).json_schema(mode="serialization")


def _schema_text(place: str) -> str:
    return json.dumps(_schema(place), indent=2, sort_keys=True) + "\n"


def _files_page() -> str:
    lines = [
        "# Files and schemas",
        "",
        "Every JSON file that TermArena writes has `kind` and `schema_version` at its top and is replaced whole or not",
        "at all. [Run folders](../runs.md) has the layout and the journal's events, [task formats](../formats.md) what",
        "a task's folder holds. The schemas (JSON Schema 2020-12) are made from the types that write the files.",
    ]
    for kind, (where, place) in SCHEMAS.items():
        schema = _schema(place)
        if "$ref" in schema:  # a type that holds itself
            schema = schema["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
        lines += [
            "",
            f"## {kind}",
            "",
            f"{where}. [Schema](schemas/{kind}.json).",
            "",
            "| field | type | |",
            "|---|---|---|",
        ]
        for name, field in schema["properties"].items():
            needed = "" if name in schema.get("required", ()) else "may be missing"
            lines.append(f"| `{name}` | {_kind_of(field)} | {needed} |")
    return "\n".join(lines) + "\n"


def _kind_of(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in field:
        return " or ".join(_kind_of(option) for option in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if field.get("type") == "array" and isinstance(field.get("items"), dict):
        return f"list of {_kind_of(field['items'])}"
    return str(field.get("type", "anything"))


def _errors_page() -> str:
    from termarena.cli.output import ExitStatus  # noqa: PLC0415 - only here
    from termarena.core import errors  # noqa: PLC0415 - only here

    drawn = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    meanings = {
        ExitStatus.DONE: "done, whatever the score",
        ExitStatus.FAULT: "a fault of a task or of the machine; nothing could be scored; a gate was not met",
        ExitStatus.USAGE: "a mistake in how it was called",
        ExitStatus.INTERRUPTED: "interrupted, by Ctrl-C or SIGTERM",
        ExitStatus.READER_GONE: "the program that read the output has ended",
    }
    rows = "\n".join(f"| {int(status)} | {meanings[status]} |" for status in ExitStatus)
    classes = [getattr(errors, name) for name in errors.__all__ if inspect.isclass(getattr(errors, name))]
    listed = "\n\n".join(f"### {c.__name__}\n\n{inspect.getdoc(c)}" for c in classes)
    return (
        "# Errors and exit statuses\n\n| status | means |\n|---|---|\n"
        + rows
        + "\n\nWith `--json` an error is one JSON object on"
        " the last line of stderr: `kind`, `message`, `hint`, and the fields that the error carries.\n\n## The tree\n\n"
        + _fence(inspect.cleandoc(drawn))
        + "\nA wrong answer is not an error: it is a verdict.\n\n## Each of them\n\n"
        + "From `termarena.core.errors`.\n\n"
        + listed
        + "\n"
    )


def _settings_page() -> str:
    from termarena.core import settings  # noqa: PLC0415 - only here

    about = inspect.cleandoc(settings.__doc__ or "").split("\n\n", 1)[1]
    documented = {**_attribute_docs(settings)}
    rows = "\n".join(
        f"| `{name}` | `{settings.variable_of(name)}` | {documented.get(name, '')} |" for name in settings.SETTING_NAMES
    )
    return (
        "# Settings\n\n"
        + about
        + "\n\n`termarena settings` shows every value and where it comes from; `termarena settings path`"
        " the files that are looked at.\n\n| in `termarena.toml` | variable | means |\n|---|---|---|\n" + rows + "\n"
    )


def _attribute_docs(settings: Any) -> dict[str, str]:  # noqa: ANN401 - a module
    """The docstring below each field, which exists only in the source."""
    import ast  # noqa: PLC0415 - only here

    sections = {holder.annotation.__name__: name for name, holder in settings.Settings.model_fields.items()}
    found: dict[str, str] = {}
    for node in ast.parse(inspect.getsource(settings)).body:
        if isinstance(node, ast.ClassDef) and node.name in sections:
            for field, text in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    found[f"{sections[node.name]}.{ast.unparse(field.target)}"] = str(text.value.value)
    return found


def _rest_page() -> str:
    spec = _openapi()
    lines = [
        "# REST",
        "",
        "What `termarena serve` answers ([the arena](../arena.md)), from its OpenAPI description, which the server",
        "itself gives at `/openapi.json`.",
    ]
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            lines += [
                "",
                f"## `{method.upper()} {path}`",
                "",
                str(operation.get("description") or operation["summary"]),
            ]
            rows = [_parameter_row(parameter) for parameter in operation.get("parameters", [])]
            lines += ["", "| parameter | in | type | |", "|---|---|---|---|", *rows] if rows else []
            lines += ["", "Answers: " + ", ".join(f"{status}" for status in operation["responses"]) + "."]
    return "\n".join(lines) + "\n"


def _parameter_row(parameter: dict[str, Any]) -> str:
    needed = "needed" if parameter.get("required") else ""
    return f"| `{parameter['name']}` | {parameter['in']} | {_kind_of(parameter.get('schema', {}))} | {needed} |"


def _openapi() -> dict[str, Any]:
    from termarena.arena.app import create_app  # noqa: PLC0415 - the only page that needs the extra `arena`
    from termarena.arena.config import ArenaConfig  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as folder:
        app = create_app(ArenaConfig(db_url=f"sqlite:///{folder}/arena.db", runs=Path(folder)))
        spec = app.openapi()
        app.state.held.database.close()
    return dict(spec)


def _performance_pages() -> Iterator[tuple[str, str]]:
    """One page per script of benchmarks/: its latest output, then what is said about it; and one that lists them."""
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    rows = ["| measured | latest figures | |", "|---|---|---|"]
    for section in sections:
        title, _, body = section.replace("](../docs/", "](../").partition("\n")
        script = re.match(r"`(\w+)\.py`: ", title)
        if script is None:
            raise ValueError(f"benchmarks/README.md: {title!r} names no script")
        said, name = title[script.end() :], script[1]
        output = kept(name)
        rows.append(f"| [{said}]({name}.md) | {_when(output, body)} |")
        latest = f"\n## The latest output\n\n{shown(output)}\n## What is said about it\n" if output else ""
        yield f"performance/{name}.md", f"# {said[0].upper()}{said[1:]}\n\n`benchmarks/{name}.py`\n{latest}{body}"
    yield "performance/index.md", head.replace("# Benchmarks", "# Performance") + "\n".join(rows) + "\n"


_DAY = re.compile(
    r"\b\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December) \d{4}"
)


def _when(output: Output | None, said: str) -> str:
    """The day of what is kept; else the days that the text about it names."""
    if output is None:
        return f"written down, {', '.join(dict.fromkeys(_DAY.findall(said))) or 'without a date'} |"
    return (
        f"{output.day:%-d %B %Y}, load {told_load(output.load_before)} | {'an aim was missed' if output.status else ''}"
    )


def _examples_page() -> str:
    folder = ROOT / "examples"
    about = re.sub(r"\]\(([\w./-]+)\)", _within, (folder / "README.md").read_text(encoding="utf-8"))
    languages = {".py": "python", ".yml": "yaml", ".toml": "toml", ".sh": "sh", ".md": "markdown"}
    parts = [about.rstrip()]
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"):
        name = file.relative_to(folder).as_posix()
        if "__pycache__" not in name:
            parts.append(f"## {name}\n\n{_fence(file.read_text(encoding='utf-8'), languages.get(file.suffix, 'text'))}")
    return "\n\n".join(parts) + "\n"


def _within(link: re.Match[str]) -> str:
    """A link to a file of the folder, as one to its heading on the page."""
    return f"](#{re.sub('[^a-z_-]', '', link[1])})"
