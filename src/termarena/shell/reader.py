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
from termarena.shell.expanding import Budget, Expanding, Substituted, parts_of, sources_left, sources_of
from termarena.shell.redirects import Inputs, heredoc_of, is_output, read_by, written_by
from termarena.shell.remembering import Memory, placed, printed
from termarena.shell.runners import LONGEST_COMMAND, inner_commands
from termarena.shell.tree import parse, text_of, walk
from termarena.shell.variables import every_source
from termarena.shell.wrappers import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from termarena.shell.expanding import Word

__all__ = ["ShellReader"]

DEEPEST: Final = 4
MOST_NESTED: Final = 4 * LONGEST_COMMAND
"""Characters of scripts within scripts; functions that call each other would have no end."""
MOST_NESTED_EVER: Final = 10 * MOST_NESTED
"""The same for a whole session: a line that runs a file is short, and the file may be long."""
MOST_FEEDERS: Final = 64
"""How far back a pipeline is followed: each of its calls holds those before it."""
_READS_SCRIPTS: Final = SHELLS | SOURCES | {"ssh", "su", "sudo"}
_SHEBANG: Final = re.compile(r"#!.*\b(?:python|perl|ruby|node|php|lua|awk)")
_IDLE: Final = frozenset({"sleep", "wait", "read", "break", "exit", "return"})
_ALWAYS: Final = re.compile(r"true|:|1|\[\s+1\s+\]|\(\(\s*1\s*\)\)")


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


class _Reading:
    """One script; `inherited` are the calls whose output is unknown in its text."""

    def __init__(
        self, memory: Memory, depth: int = 0, budget: Budget | None = None, inherited: tuple[Call, ...] = ()
    ) -> None:
        self._memory = memory
        self._depth = depth
        self._budget = budget or Budget()
        self._expanding = Expanding(memory, self._budget, self._substituted, inherited)
        self._calls: list[Call] = []
        self._bombs: list[str] = []
        self._drains: list[Call] = []
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
        self._budget.is_whole &= not root.has_error
        self._visit(root)
        budget = self._budget
        return Called(tuple(self._calls), budget.is_whole, tuple(self._bombs), is_overgrown=budget.is_overgrown)

    def _visit(self, node: Node) -> list[Call]:
        """The calls that the node itself makes, in order; nested ones are only noted."""
        handler = self._handlers.get(node.type)
        return handler(node) if handler is not None else self._visit_all(node)

    def _pipeline(self, node: Node) -> list[Call]:
        before: list[Call] = []
        for child in node.named_children:
            start, drained = len(self._calls), len(self._drains)
            found = self._visit(child)
            if before and found:
                self._budget.is_whole &= len(before) <= MOST_FEEDERS
                found = self._feed(found, tuple(before[-MOST_FEEDERS:]), start)
            before += found
            self._drain(drained, before, start)
        return before

    def _drain(self, drained: int, by: list[Call], start: int) -> None:
        """Note who feeds the calls that came to stand in `>(…)` since then."""
        if by and self._drains[drained:]:
            self._drains[drained:] = self._feed(self._drains[drained:], tuple(by[-MOST_FEEDERS:]), start)

    def _feed(self, found: list[Call], by: tuple[Call, ...], start: int) -> list[Call]:
        """Note who feeds the calls in `found`; what is printed into a shell is a script of its own."""
        fed = [replace(call, fed_by=(*call.fed_by, *by)) for call in found]
        shown = next((call for call in reversed(by) if call.program != "tee"), by[-1])
        text = printed(shown)
        if fed[0].program == "tee" and text is not None:
            self._memory.wrote(fed[0], text, more=fed[0].has_flag("a", "--append"))
        elif text is not None and not set(fed[0].operands()) - {"-"}:
            fed[0] = self._given(fed[0], text)
        for path in shown.operands() if shown.program == "cat" else ():
            fed[0] = self._fed_file(fed[0], path)
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
        return replace(call, passed_on=text) if call.program == "cat" and not call.operands() else call

    def _redirected_statement(self, node: Node) -> list[Call]:
        body = node.child_by_field_name("body")
        start, drained = len(self._calls), len(self._drains)
        found = self._visit(body) if body is not None else []
        redirects = node.children_by_field_name("redirect")
        writes = tuple(target for redirect in redirects for target in self._written(redirect))
        inputs = self._inputs(redirects)
        script = "".join((*map(heredoc_of, redirects), *inputs.texts))
        if found and inputs.calls:
            found = self._feed(found, inputs.calls, start)
        if found:
            last = replace(found[-1], writes=(*found[-1].writes, *writes))
            last = self._given(last, script) if script else last
            for source in read_by(redirects):
                last = self._fed_file(last, self._word(source))
            self._changed(found[-1:], [last], start)
            found = [*found[:-1], last]
            self._wrote(last, script, redirects)
        elif writes:
            self._calls.append(Call((), text_of(node), writes))
        for redirect in redirects:
            found = self._continued(redirect, found, script)
        self._drain(drained, found, start)
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
                if found[-1].passed_on is None:
                    given = [self._given(after[0], script), *after[1:]]
                    self._changed(after, given, start)
                    after = given
                after = self._feed(after, tuple(found), start)
            found = [*found, *after]
        return found

    def _written(self, redirect: Node) -> list[str]:
        """The file that a redirection writes."""
        if redirect.type == "heredoc_redirect":  # `cat <<END > file`
            inner = [child for child in redirect.named_children if child.type == "file_redirect"]
            return [target for child in inner for target in self._written(child)]
        return [self._word(word) for word in written_by(redirect)]

    def _inputs(self, redirects: list[Node]) -> Inputs:
        """What redirections put before a call, files aside: `< <(curl …)`, `<<< TEXT`."""
        start = len(self._calls)
        for redirect in redirects:
            if redirect.type == "file_redirect" and not is_output(redirect):
                self._visit_all(redirect)
        calls = self._calls[start:]
        strings = [
            self._expanding.word(child)
            for redirect in redirects
            if redirect.type == "herestring_redirect"
            for child in redirect.named_children
        ]
        return Inputs((*calls, *(one for word in strings for one in word.sources)), [word.text for word in strings])

    def _variable_assignment(self, node: Node) -> list[Call]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return []
        variables, more = self._memory.variables, any(child.type == "+=" for child in node.children)
        if value is not None and value.type == "array":
            words = [word for child in value.named_children for word in self._expanding.words(child)]
            variables.put_all(text_of(name), [word.text for word in words], sources_of(words), more=more)
            return []
        text, sources = self._expanding.word(value) if value is not None else ("", ())
        if name.type == "subscript":
            variables.put_at(*parts_of(name), text, sources)
        elif (held := variables.find(text_of(name))) is not None and more:
            whole = self._expanding.grown(held.joined() + text)
            variables.put(text_of(name), whole, every_source(held.sources, sources))
        else:
            variables.put(text_of(name), text, sources)
        return []

    def _for_statement(self, node: Node) -> list[Call]:
        name = node.child_by_field_name("variable")
        words = [word for child in node.children_by_field_name("value") for word in self._expanding.words(child)]
        if name is not None:
            texts = [word.text for word in words] or [UNKNOWN]
            self._memory.variables.put_all(text_of(name), texts, sources_of(words), is_loop=True)
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
        words: list[Word] = []
        redirects: list[Node] = []
        start, drained = len(self._calls), len(self._drains)
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._variable_assignment(child)
                continue
            shown = child.named_children[0] if child.type == "command_name" and child.named_children else child
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                redirects.append(child)
                continue
            words += self._expanding.words(shown)
        writes = tuple(target for redirect in redirects for target in self._written(redirect))
        inputs = self._inputs(redirects)
        bare = unwrapped([word.text for word in words], through_xargs=True)
        cwd = self._memory.cwd
        for folder in bare.folders:
            self._memory.cwd = placed(folder, self._memory.cwd)
        call = Call(bare.words, text_of(node), writes, inputs.calls, bare.wrappers, self._memory.cwd)
        known = self._known(replace(call, sources=sources) if (sources := sources_left(words, bare)) else call, inputs)
        if bare.folders:
            self._memory.cwd = cwd
        self._drain(drained, [known], start)
        return [known]

    def _known(self, call: Call, inputs: Inputs) -> Call:
        """Note the call with the program that it is given, and what comes of it."""
        at = len(self._calls)
        self._calls.append(call)
        full = self._with_file(call)
        for text in (*inputs.texts, *substituted(full)):
            full = self._given(full, text)
        self._calls[at] = full
        self._memory.moved(full)
        self._memory.made(full)
        self._read_inner(full)
        for text in inputs.texts if full.program == "read" else ():
            self._memory.read_in(full, text)
        return full

    def _with_file(self, call: Call) -> Call:
        path = run_file(call)
        return call if path is None else self._running(call, path)

    def _running(self, call: Call, path: str) -> Call:
        """The call with what is known of a file that is its program: its text, or who fetched it."""
        place = placed(path, call.cwd)
        if (bringer := self._memory.fetched.get(place)) is not None:
            call = replace(call, brought_by=bringer)
        if self._memory.is_lost(place):
            return replace(call, is_unread=True)
        text = self._memory.text_at(place)
        if text is None:
            return call
        if LANGUAGES.fullmatch(call.program) or _SHEBANG.match(text):
            return replace(call, scripts=(*call.scripts, text)) if self._has_room(text) else call
        at = call.arguments.index(path) + 1 if path in call.arguments else 0
        self._given_words(call, at, text, keeps_place=call.program in SOURCES)
        return call

    def _fed_file(self, call: Call, path: str) -> Call:
        """The call with a file at its input, if that is a program for it; a database's is data."""
        is_shell = call.program in SHELLS and not set(call.operands()) - {"-"}
        is_program = is_shell or (LANGUAGES.fullmatch(call.program) is not None and takes_program(call))
        return self._running(call, path) if is_program else call

    def _read_inner(self, call: Call) -> None:
        """`sh -c TEXT`, `su bob -c TEXT`, `eval TEXT`, `find -exec`, a function's name: commands of their own."""
        inner = inner_commands(call.program, call.arguments)
        self._budget.is_whole &= inner is not None
        for text in inner or []:
            at = call.arguments.index(text) + 2 if call.program in SHELLS and text in call.arguments else None
            self._given_words(call, at, text, keeps_place=call.program == "eval")
        if call.program in self._memory.functions:
            self._given_words(call, 0, self._memory.functions[call.program], keeps_place=True)

    def _given_words(self, call: Call, at: int | None, text: str, *, keeps_place: bool) -> None:
        """Read a script that gets the call's arguments from `at` on; with None, those that the one around it has."""
        given, sources = self._memory.variables.given, call.made_of
        if at is not None:
            self._memory.variables.give(call.arguments[at:], sources)
        self._nested(text, keeps_place=keeps_place, inherited=sources)
        self._memory.variables.given = given

    def _nested(self, text: str, *, keeps_place: bool = False, inherited: tuple[Call, ...] = ()) -> None:
        self._budget.nested += len(text)
        if self._depth >= DEEPEST or len(text) > LONGEST_COMMAND or self._budget.nested > MOST_NESTED:
            self._budget.is_whole = False
            return
        if not self._has_room(text):
            return
        cwd = self._memory.cwd
        inner = _Reading(self._memory, self._depth + 1, self._budget, inherited).script(text)
        if not keeps_place:
            self._memory.cwd = cwd
        self._calls += inner.calls
        self._bombs += inner.bombs

    def _has_room(self, text: str) -> bool:
        """Whether the session may have one more script; a short line may run a long one again and again."""
        self._memory.nested += len(text)
        self._budget.is_whole &= self._memory.nested <= MOST_NESTED_EVER
        return self._memory.nested <= MOST_NESTED_EVER

    def _word(self, node: Node) -> str:
        return self._expanding.word(node).text

    def _substituted(self, node: Node) -> Substituted:
        start = len(self._calls)
        found = self._apart(node)
        self._drains += found if text_of(node).startswith(">(") else []
        return Substituted(found, self._calls[start:])

    def _visit_all(self, node: Node) -> list[Call]:
        return [call for child in node.named_children for call in self._visit(child)]
