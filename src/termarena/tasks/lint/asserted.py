"""Absolute paths that tests ask for: in Python by its syntax tree, in shell by the words of its commands.

Only what a test requires counts: not a path that it writes itself, asserts to be absent, looks at if it happens to
exist, or offers as one of several places.
"""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.tasks.lint.shell import Statement

__all__ = ["Asserted", "looks_like_path", "parse_python", "python_candidates", "python_paths", "shell_paths"]

# Where the harness, the system and the kernel keep their own files: no instruction has to name those.
_SYSTEM = "tests logs usr bin sbin lib lib64 etc proc sys dev run boot solution oracle tmp var"
SYSTEM = frozenset(_SYSTEM.split())
# First parts that are places in a file system and not routes of a web service.
_PLACES = """
app workspace work home root opt srv data output outputs out project projects repo src mnt media results result code
task build input inputs
"""
PLACES = frozenset(_PLACES.split())
_SHAPE = re.compile(r"/[A-Za-z0-9_.][\w.+@=,-]*(?:/[\w.+@=,-]+)*/?")
# Each begins with a literal, which `re` finds fast; one pattern for both quotes takes three times as long.
_QUOTED = tuple(re.compile(rf"{quote}(/[A-Za-z0-9_.][\w.+@=,/{{}}()\[\]-]{{0,300}}){quote}") for quote in "\"'")
_DIVIDED = tuple(re.compile(rf"{sign}f?[\"']([\w.+@=,/{{}}-]{{1,200}})[\"']") for sign in ("/ ", "/"))
_JOINED = re.compile(r"join\(([^()\n]{1,200})\)")
_LITERAL = re.compile(r"[\"']([\w.+@=,/-]{1,100})[\"']")
_REDIRECTED = re.compile(r">[ \t]*[\"']?(/[\w./+@=,-]{1,200})")
_SHELL_PATH = re.compile(r"(?<![\w./$}>*~-])/[A-Za-z0-9_.][\w.+@=,-]*(?:/[\w.+@=,-]+)*(?![\w/*?{$\[])")
_ASSERTS = re.compile(
    r"(?:\[{1,2}|\btest|!)[ \t].{0,40}-[defrsxwLh][ \t]"
    r"|\b(?:cat|grep|diff|cmp|jq|head|tail|wc|stat|ls|md5sum|sha256sum|python3?|bash|sh|node|sqlite3)\b"
)
_OWN = re.compile(r"(?:mkdir|rm|touch|cp|mv|ln|tee|install|chmod|chown|cd)\b")
_OPTIONAL = re.compile(r"\[[ \t]*![ \t]+-|^!|\bif[ \t]+(?:\[{1,2}|test)[ \t]+-[a-zA-Z][ \t]")
_WRITING = """
write_text write_bytes mkdir touch unlink rmdir symlink_to makedirs remove rmtree rename to_csv dump savetxt save copy
copy2 copyfile copytree move
"""
_WRITERS = frozenset(_WRITING.split())
_USING = """
open Path PurePath PosixPath exists isfile isdir islink lexists getsize getmtime stat access listdir walk glob run Popen
check_output check_call call system connect spec_from_file_location ZipFile genfromtxt chdir is_file is_dir iterdir
rglob insert append scandir
"""
_FILE_CALLS = frozenset(_USING.split())
_WRITE_MODE = re.compile(r"[wax]b?\+?[bt]?")
_READS = ("read", "load", "open", "parse", "get", "is_", "exists", "imread")
# Larger trees are not tests that people wrote; these bound the time that any text can take.
_MAX_NODES = 60_000
_MAX_PARTS = 20
_MAX_PATH = 1000
_MAX_CLIMB = 40


class Asserted(NamedTuple):
    """A path that a test asks for, and the line where it does."""

    path: str
    line: int


def looks_like_path(text: str) -> bool:
    """Whether this is an absolute path outside the system's own folders."""
    return len(text) > 1 and _SHAPE.fullmatch(text) is not None and text.split("/", 2)[1] not in SYSTEM


def python_candidates(text: str) -> list[str]:
    """Paths and parts of paths that a Python file may be asking for: cheap, and with too many rather than too few."""
    found = {path for pattern in _QUOTED for path in pattern.findall(text)}
    parts = [part for pattern in _DIVIDED for part in pattern.findall(text)]
    parts += [part for inner in _JOINED.findall(text) for part in _LITERAL.findall(inner)]
    found.update(part for part in parts if "." in part)
    return [one for one in found if not one.startswith("/") or one.split("/", 2)[1] not in SYSTEM]


def parse_python(text: str) -> ast.Module | None:
    """The syntax tree, or None if the text is not Python. Says nothing about odd escapes in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def python_paths(tree: ast.Module, is_known: Callable[[str], bool]) -> list[Asserted]:
    """The paths that the tests require. `is_known` says what the agent knows; of several places one is enough."""
    return _Reader(is_known).read(tree)


class _Reader:
    """One pass over a syntax tree: names that stand for paths, then what is done with each path."""

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self.is_known = is_known
        self.values: dict[str, str] = {}
        self.parents: dict[ast.AST, ast.AST] = {}
        self.excused: set[str] = set()
        self.required: dict[str, int] = {}

    def read(self, tree: ast.Module) -> list[Asserted]:
        nodes = self._linked(tree)
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                path = self._path(node.value)
                if path is not None:
                    self.values[node.targets[0].id] = path
        for node in nodes:
            if isinstance(node, (ast.Constant, ast.Call, ast.BinOp, ast.Name, ast.JoinedStr)):
                self._use(node)
        found = [Asserted(path, line) for path, line in self.required.items() if path not in self.excused]
        return sorted(found, key=lambda one: one.line)

    def _linked(self, tree: ast.Module) -> list[ast.AST]:
        nodes: list[ast.AST] = [tree]
        for node in nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                nodes.append(child)
            if len(nodes) > _MAX_NODES:
                return []
        return nodes

    def _path(self, node: ast.AST | None, depth: int = 0) -> str | None:
        """The absolute path that an expression stands for, if it can be told without running it."""
        found: str | None = None
        if depth > _MAX_PARTS:
            return None
        match node:
            case ast.Constant(value=str(text)) if text.startswith("/"):
                found = text
            case ast.Name(id=name):
                found = self.values.get(name)
            case ast.BinOp(left=left, op=ast.Div() | ast.Add() as op, right=ast.Constant(value=str(part))):
                base = self._path(left, depth + 1)
                if base is not None:
                    found = posixpath.join(base, part) if isinstance(op, ast.Div) else base + part
            case ast.Call(
                func=ast.Name(id="Path" | "PurePath" | "PosixPath" | "str") | ast.Attribute(attr="Path" | "join"),
                args=[first, *rest],
            ):
                found = self._joined(first, rest, depth)
            case ast.JoinedStr(values=parts):
                found = self._formatted(parts, depth)
        # Names made of names made of names would double with every line.
        return found if found is not None and len(found) <= _MAX_PATH else None

    def _joined(self, first: ast.expr, rest: list[ast.expr], depth: int) -> str | None:
        base = self._path(first, depth + 1)
        if base is None or not all(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in rest):
            return None
        return posixpath.join(
            base, *(part.value for part in rest if isinstance(part, ast.Constant) and isinstance(part.value, str))
        )

    def _formatted(self, parts: list[ast.expr], depth: int) -> str | None:
        texts = []
        for part in parts:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                texts.append(part.value)
            elif (path := self._path(inner, depth + 1)) is not None:
                texts.append(path)
            else:
                return None
        return "".join(texts)

    def _use(self, node: ast.expr) -> None:
        path = self._path(node)
        if path is None or not looks_like_path(path):
            return
        parent = self.parents.get(node)
        if parent is None or self._path(parent) is not None:
            return
        path = posixpath.normpath(path)
        kind = self._kind(node, parent, path)
        if kind == "excused":
            self.excused.add(path)
        elif kind == "required":
            self.required.setdefault(path, getattr(node, "lineno", 1))

    def _kind(self, node: ast.expr, parent: ast.AST, path: str) -> str:
        """How a test uses a path: `required`, `excused` (then nothing is asked of the agent), or `other`."""
        if isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
            # What a test hands to a program as its arguments is the test's choice.
            if self._has_known_alternative(parent, node) or node in parent.elts[2:]:
                return "excused"
            parent = self.parents.get(parent, parent)
        call = parent
        if isinstance(parent, ast.Attribute):
            call = self.parents.get(parent, parent)
            if parent.attr in _WRITERS:
                return "excused"
        elif isinstance(parent, ast.keyword):
            call = self.parents.get(parent, parent)
        if isinstance(call, (ast.For, ast.comprehension)):
            return "required" if isinstance(node, ast.Constant) and path.split("/")[1] in PLACES else "other"
        return self._kind_in_call(call, parent, path) if isinstance(call, ast.Call) else "other"

    def _kind_in_call(self, call: ast.Call, parent: ast.AST, path: str) -> str:
        name = (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else call.func.id
            if isinstance(call.func, ast.Name)
            else ""
        )
        if name in _WRITERS or (name == "open" and _writes(call)) or self._is_excused_by_context(call):
            return "excused"
        reads = name.startswith(_READS) and path.split("/")[1] in PLACES
        if isinstance(parent, ast.Attribute) or name in _FILE_CALLS or reads:
            return "required"
        # `module.render(output=…)`: the test tells the agent's code where to write.
        return "excused" if isinstance(call.func, ast.Attribute) else "other"

    def _has_known_alternative(self, parent: ast.List | ast.Tuple | ast.Set, node: ast.expr) -> bool:
        others = [self._path(item) for item in parent.elts if item is not node]
        return any(other is not None and self.is_known(other) for other in others)

    def _is_excused_by_context(self, call: ast.Call) -> bool:
        """Whether the call stands in `assert not …`, is one of several with `or`, or is the condition of an `if`."""
        child: ast.AST = call
        negations = 0
        for _ in range(_MAX_CLIMB):
            above = self.parents.get(child)
            if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
                negations += 1
            elif isinstance(above, ast.BoolOp) and isinstance(above.op, ast.Or):
                return True
            elif isinstance(above, ast.Assert):
                return negations % 2 == 1 and child is above.test
            elif isinstance(above, (ast.If, ast.IfExp)):
                return negations % 2 == 0 and child is above.test
            elif not isinstance(above, ast.expr):
                return False
            child = above
        return False


def _writes(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    if isinstance(call.func, ast.Attribute):
        modes += call.args[:1]
    texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    return any(_WRITE_MODE.fullmatch(text) for text in texts)


def shell_paths(statements: list[Statement]) -> list[Asserted]:
    """The paths that a shell script's tests look at; a path that it redirects to, makes or deletes is its own."""
    found: dict[str, int] = {}
    own: set[str] = set()
    for statement in statements:
        text = statement.text
        if "/" not in text:
            continue
        own.update(_REDIRECTED.findall(text))
        paths = [path for path in _SHELL_PATH.findall(text) if looks_like_path(path)]
        if not paths:
            continue
        if _OWN.match(text):
            own.update(paths)
        elif _ASSERTS.search(text) and not _OPTIONAL.search(text):
            for path in paths:
                found.setdefault(posixpath.normpath(path), statement.line)
    return [Asserted(path, line) for path, line in found.items() if path not in own]
