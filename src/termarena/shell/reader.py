"""Shell commands taken apart: which programs are called with which words, what feeds them, and where they write.

The syntax tree comes from tree-sitter, which stands errors; words are resolved as far as the recording itself tells:
quotes removed, variables that were set before filled in, wrappers such as `sudo` taken off, the scripts of `sh -c`,
`eval` and here-documents read as commands of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from termarena.shell.bombs import starts_itself
from termarena.shell.calls import (
    LANGUAGES,
    SHELLS,
    SOURCES,
    UNKNOWN,
    Call,
    Called,
    run_file,
    substituted,
    takes_program,
)
from termarena.shell.remembering import Memory, placed, printed, unescaped
from termarena.shell.runners import LONGEST_COMMAND, inner_commands
from termarena.shell.tree import parse, text_of, walk
from termarena.shell.wrappers import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tree_sitter import Node

__all__ = ["ShellReader"]

DEEPEST: Final = 4
MOST_NESTED: Final = 4 * LONGEST_COMMAND
"""Characters of scripts within scripts; functions that call each other would have no end."""
MOST_NESTED_EVER: Final = 10 * MOST_NESTED
"""The same for a whole session: a line that runs a file is short, and the file may be long."""
MOST_FEEDERS: Final = 64
"""How far back a pipeline is followed: each of its calls holds those before it."""
_READS_SCRIPTS: Final = SHELLS | SOURCES | {"ssh"}
_SHEBANG: Final = re.compile(r"#!.*\b(?:python|perl|ruby|node|php|lua|awk)")
_IDLE: Final = frozenset({"sleep", "wait", "read", "break", "exit", "return"})
_ALWAYS: Final = re.compile(r"true|:|1|\[\s+1\s+\]|\(\(\s*1\s*\)\)")
_PLAIN: Final = frozenset({"word", "string", "raw_string", "concatenation", "simple_expansion", "expansion"})
_WORDS: Final = frozenset(
    {"word", "string", "raw_string", "concatenation", "simple_expansion", "expansion", "number", "ansi_c_string",
     "command_substitution", "process_substitution", "arithmetic_expansion", "translated_string", "brace_expression"}
)  # fmt: skip


@dataclass(slots=True)
class ShellReader:
    """Reads the commands of one session in order, and remembers what they set, where they went and what they wrote."""

    memory: Memory = field(default_factory=Memory)

    def read(self, text: str, *, cwd: str | None = None) -> Called:
        """Take one command apart, which ran in `cwd` where the recording tells that. Raises `MissingExtra`."""
        if len(text) > LONGEST_COMMAND:
            return Called((), is_whole=False)
        if cwd is not None:
            self.memory.cwd = cwd
        try:
            return _Reading(self.memory).script(text)
        except RecursionError:
            return Called((), is_whole=False)


class _Budget:
    """Of one command line, shared by the scripts within it."""

    def __init__(self) -> None:
        self.filled_in = 0
        self.nested = 0


class _Reading:
    def __init__(self, memory: Memory, depth: int = 0, budget: _Budget | None = None) -> None:
        self._memory = memory
        self._depth = depth
        self._budget = budget or _Budget()
        self._calls: list[Call] = []
        self._bombs: list[str] = []
        self._is_whole = True
        self._handlers: dict[str, Callable[[Node], list[Call]]] = {
            "pipeline": self._pipeline,
            "redirected_statement": self._redirected_statement,
            "variable_assignment": self._variable_assignment,
            "for_statement": self._for_statement,
            "while_statement": self._while_statement,
            "function_definition": self._function_definition,
            "subshell": self._apart,
            "comment": lambda _: [],
            "command": self._command,
        }

    def script(self, text: str) -> Called:
        root = parse(text.encode("utf-8", "replace"))
        self._is_whole &= not root.has_error
        self._visit(root)
        return Called(tuple(self._calls), self._is_whole, tuple(self._bombs))

    def _visit(self, node: Node) -> list[Call]:
        """The calls that the node itself makes, in order; nested ones are only noted."""
        handler = self._handlers.get(node.type)
        return handler(node) if handler is not None else self._visit_all(node)

    def _pipeline(self, node: Node) -> list[Call]:
        before: list[Call] = []
        for child in node.named_children:
            start = len(self._calls)
            found = self._visit(child)
            if before and found:
                self._is_whole &= len(before) <= MOST_FEEDERS
                found = self._feed(found, tuple(before[-MOST_FEEDERS:]), start)
            before += found
        return before

    def _feed(self, found: list[Call], by: tuple[Call, ...], start: int) -> list[Call]:
        """Note who feeds the calls in `found`; what is printed into a shell is a script of its own."""
        fed = [replace(call, fed_by=(*call.fed_by, *by)) for call in found]
        shown = next((call for call in reversed(by) if call.program != "tee"), by[-1])
        text = printed(shown)
        if fed[0].program == "tee" and text is not None:
            self._memory.wrote(fed[0], text, more=fed[0].has_flag("a", "--append"))
        elif text is not None and not set(fed[0].operands()) - {"-"}:
            fed[0] = self._given(fed[0], text)
        elif shown.program == "cat" and len(files := shown.operands()) == 1:
            fed[0] = self._fed_file(fed[0], files[0])
        self._changed(found, fed, start)
        return fed

    def _changed(self, old: list[Call], new: list[Call], start: int) -> None:
        """Calls that are better known now; what they make of files is noted anew."""
        # By identity: each call of a pipeline holds those before it, which hold theirs.
        known = {id(before): after for before, after in zip(old, new, strict=True)}
        self._calls[start:] = [known.get(id(call), call) for call in self._calls[start:]]
        for call in new:
            self._memory.made(call)

    def _given(self, call: Call, text: str) -> Call:
        """The call with a text at its input, if that is a program for it; a shell's is read at once."""
        if call.program in _READS_SCRIPTS:
            self._nested(text)
        elif takes_program(call):
            return replace(call, scripts=(*call.scripts, text))
        return call

    def _redirected_statement(self, node: Node) -> list[Call]:
        body = node.child_by_field_name("body")
        start = len(self._calls)
        found = self._visit(body) if body is not None else []
        redirects = node.children_by_field_name("redirect")
        writes = tuple(target for redirect in redirects for target in self._written(redirect))
        script = "".join(map(_heredoc, redirects))
        if found:
            last = replace(found[-1], writes=(*found[-1].writes, *writes))
            last = self._given(last, script) if script else last
            for source in self._read_from(redirects):
                last = self._fed_file(last, source)
            self._changed(found[-1:], [last], start)
            found = [*found[:-1], last]
            self._wrote(last, script, redirects)
        elif writes:
            self._calls.append(Call((), text_of(node), writes))
        for redirect in redirects:
            found = self._continued(redirect, found, script)
        return found

    def _wrote(self, call: Call, script: str, redirects: list[Node]) -> None:
        text = script if call.program in ("cat", "tee") and script else printed(call)
        if text is not None:
            self._memory.wrote(call, text, more=any(">>" in text_of(redirect)[:3] for redirect in redirects))

    def _continued(self, redirect: Node, found: list[Call], script: str) -> list[Call]:
        """What stands on the same line behind a here-document's word: `cat <<END | bash`."""
        if redirect.type != "heredoc_redirect":
            return found
        for child in redirect.named_children:
            if child.type == "file_redirect":
                continue
            start = len(self._calls)
            after = self._visit(child)
            if child.type == "pipeline" and found and after:
                given = [self._given(after[0], script), *after[1:]]
                self._changed(after, given, start)
                after = self._feed(given, tuple(found), start)
            found = [*found, *after]
        return found

    def _written(self, redirect: Node) -> list[str]:
        """The file that a redirection writes; what it reads may be made by calls of its own, which are noted."""
        if redirect.type == "heredoc_redirect":  # `cat <<END > file`
            inner = [child for child in redirect.named_children if child.type == "file_redirect"]
            return [target for child in inner for target in self._written(child)]
        if redirect.type != "file_redirect" or not any(
            child.type.startswith((">", "&>")) for child in redirect.children
        ):
            self._visit_all(redirect)
            return []
        words = [child for child in redirect.named_children if child.type in _WORDS and child.type != "number"]
        return [self._word(word) for word in words[:1]]

    def _read_from(self, redirects: list[Node]) -> Iterator[str]:
        """The files at a call's input."""
        for redirect in redirects:
            if redirect.type == "file_redirect" and any(child.type == "<" for child in redirect.children):
                yield from (self._word(child) for child in redirect.named_children if child.type in _PLAIN)

    def _variable_assignment(self, node: Node) -> list[Call]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and name.type == "variable_name":
            self._memory.variables[text_of(name)] = self._word(value) if value is not None else ""
        return []

    def _for_statement(self, node: Node) -> list[Call]:
        name = node.child_by_field_name("variable")
        values = [self._word(child) for child in node.children_by_field_name("value")]
        if name is not None:
            self._memory.variables[text_of(name)] = " ".join(values) or UNKNOWN
        body = node.child_by_field_name("body")
        return self._visit(body) if body is not None else []

    def _while_statement(self, node: Node) -> list[Call]:
        """A loop without end that starts programs and waits for none is a fork bomb, too."""
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        start = len(self._calls)
        found = self._visit_all(node)
        is_endless = condition is not None and _ALWAYS.fullmatch(text_of(condition).rstrip(";").strip())
        starts_more = body is not None and any(inner.type == "&" for inner in walk(body))
        if is_endless and starts_more and not {call.program for call in self._calls[start:]} & _IDLE:
            self._bombs.append(text_of(node))
        return found

    def _function_definition(self, node: Node) -> list[Call]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return []
        called = text_of(name)
        if starts_itself(called, body):
            self._bombs.append(f"{called}()")
            return []
        self._memory.functions[called] = text_of(body)
        return self._apart(body)

    def _apart(self, node: Node) -> list[Call]:
        """Calls that lead the shell nowhere: those of a subshell, or of a function that is only defined."""
        cwd = self._memory.cwd
        found = self._visit_all(node)
        self._memory.cwd = cwd
        return found

    def _command(self, node: Node) -> list[Call]:
        fed: list[Call] = []
        words: list[str] = []
        redirects: list[Node] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._variable_assignment(child)
                continue
            shown = child.named_children[0] if child.type == "command_name" and child.named_children else child
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                redirects.append(child)
                continue
            start = len(self._calls)
            words += self._words(shown)
            fed += self._calls[start:]
        writes = tuple(target for redirect in redirects for target in self._written(redirect))
        bare = unwrapped(words, through_xargs=True)
        call = Call(bare.words, text_of(node), writes, tuple(fed), bare.wrappers, self._memory.cwd)
        return [self._known(call, redirects)]

    def _known(self, call: Call, redirects: list[Node]) -> Call:
        """Note the call with the program that it is given, and what comes of it."""
        at = len(self._calls)
        self._calls.append(call)
        full = self._with_file(call)
        for text in (*self._strings_fed(redirects), *substituted(full)):
            full = self._given(full, text)
        self._calls[at] = full
        self._memory.moved(full)
        self._memory.made(full)
        self._read_inner(full)
        return full

    def _with_file(self, call: Call) -> Call:
        path = run_file(call)
        return call if path is None else self._running(call, path)

    def _running(self, call: Call, path: str) -> Call:
        """The call with what is known of a file that is its program: its text, or who fetched it."""
        place = placed(path, call.cwd)
        call = replace(call, brought_by=self._memory.fetched.get(place) or call.brought_by)
        text = self._memory.texts.get(place)
        if text is None:
            return call
        if LANGUAGES.fullmatch(call.program) or _SHEBANG.match(text):
            return replace(call, scripts=(*call.scripts, text))
        self._nested(text, keeps_place=call.program in SOURCES)
        return call

    def _fed_file(self, call: Call, path: str) -> Call:
        """The call with a file at its input, if that is a program for it; a database's is data."""
        is_shell = call.program in SHELLS and not set(call.operands()) - {"-"}
        is_program = is_shell or (LANGUAGES.fullmatch(call.program) is not None and takes_program(call))
        return self._running(call, path) if is_program else call

    def _strings_fed(self, redirects: list[Node]) -> Iterator[str]:
        for redirect in redirects:
            if redirect.type == "herestring_redirect":
                yield from (self._word(child) for child in redirect.named_children)

    def _read_inner(self, call: Call) -> None:
        """`sh -c TEXT`, `su bob -c TEXT`, `eval TEXT`, `find -exec`, a function's name: commands of their own."""
        inner = inner_commands(call.program, call.arguments)
        self._is_whole &= inner is not None
        for text in inner or []:
            self._nested(text, keeps_place=call.program == "eval")
        if call.program in self._memory.functions:
            given = {str(number): word for number, word in enumerate(call.arguments, 1)}
            self._memory.variables |= {**given, "@": " ".join(call.arguments), "*": " ".join(call.arguments)}
            self._nested(self._memory.functions[call.program], keeps_place=True)

    def _nested(self, text: str, *, keeps_place: bool = False) -> None:
        self._budget.nested += len(text)
        if self._depth >= DEEPEST or len(text) > LONGEST_COMMAND or self._budget.nested > MOST_NESTED:
            self._is_whole = False
            return
        self._memory.nested += len(text)
        if self._memory.nested > MOST_NESTED_EVER:
            self._is_whole = False
            return
        cwd = self._memory.cwd
        inner = _Reading(self._memory, self._depth + 1, self._budget).script(text)
        if not keeps_place:
            self._memory.cwd = cwd
        self._calls += inner.calls
        self._bombs += inner.bombs
        self._is_whole &= inner.is_whole

    def _words(self, node: Node) -> list[str]:
        """One word, or those that a variable without quotes falls into."""
        word = self._word(node)
        if node.type in ("simple_expansion", "expansion", "command_substitution") and " " in word:
            return word.split()
        return [word]

    def _word(self, node: Node) -> str:
        kind = node.type
        if kind in ("simple_expansion", "expansion"):
            return self._variable(node)
        if kind in ("string", "concatenation", "translated_string", "command_name"):
            return "".join(self._word(child) for child in node.children if child.type not in ('"', "$"))
        if kind in ("command_substitution", "process_substitution", "arithmetic_expansion"):
            return self._substituted(node)
        if kind in ("raw_string", "ansi_c_string"):
            quoted = text_of(node)
            return unescaped(quoted[2:-1]) if quoted.startswith("$") else quoted[1:-1]
        return re.sub(r"\\(.)", r"\1", text_of(node), flags=re.DOTALL)

    def _substituted(self, node: Node) -> str:
        """What a substitution comes to, where that can be told."""
        start = len(self._calls)
        found = self._apart(node)
        if node.type != "command_substitution" or len(self._calls) - start != 1 or len(found) != 1:
            return UNKNOWN
        (call,) = found
        if call.program == "mktemp":
            return f"/tmp/{UNKNOWN}"  # noqa: S108 - where it makes them
        return call.cwd if call.program == "pwd" else self._grown((printed(call) or "").rstrip("\n") or UNKNOWN)

    def _visit_all(self, node: Node) -> list[Call]:
        return [call for child in node.named_children for call in self._visit(child)]

    def _variable(self, node: Node) -> str:
        names = [child for child in node.named_children if child.type in ("variable_name", "special_variable_name")]
        others = [child for child in node.named_children if child not in names]
        for child in others:
            if child.type in ("command_substitution", "process_substitution"):
                self._visit_all(child)
        has_default = any(child.type in (":-", "-", ":=", "=") for child in node.children)
        default = "".join(map(self._word, others)) if has_default else UNKNOWN
        is_plain = node.type == "simple_expansion" or not others or has_default
        value = self._memory.variables.get(text_of(names[0]), default) if names and is_plain else UNKNOWN
        return self._grown(value or default)

    def _grown(self, value: str) -> str:
        self._budget.filled_in += len(value)
        if self._budget.filled_in > LONGEST_COMMAND:  # `A=$A$A`, a few times over, is more than any memory holds
            self._is_whole = False
            return UNKNOWN
        return value


def _heredoc(redirect: Node) -> str:
    if redirect.type != "heredoc_redirect":
        return ""
    return "".join(text_of(child) for child in redirect.named_children if child.type == "heredoc_body")
