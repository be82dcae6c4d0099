"""What common programs make of text, in words: enough to ask for a result without naming the command.

Each phrase is exact, or there is none: an instruction that leaves something open is worse than one that shows the
result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["PHRASES", "Flow", "Words", "lines_of", "ordinal", "printed_by", "substitution"]

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """What runs through a pipe, told so far."""

    told: str
    unit: Literal["lines", "number", "text"] = "lines"
    is_ordered: bool = True
    """Whether the words say in which order the lines come."""
    ends: tuple[str, ...] = ()
    """What is done to the lines afterwards: `sorted`, `each once`."""

    def then(self, words: str) -> Flow:
        """The same lines, with something more done to them."""
        return replace(self, ends=(*self.ends, words))

    @property
    def phrase(self) -> str:
        """All of it as one noun phrase."""
        return ", ".join((self.told, *self.ends))


def lines_of(paths: Words) -> Flow | None:
    """The lines of some files; a pattern stands for the files that it matches."""
    if not paths:
        return None
    if len(paths) == 1 and "*" in paths[0]:
        return Flow(f"the lines of the files `{paths[0]}`, file after file in the order of their names")
    if any("*" in path for path in paths):
        return None
    return Flow(f"the lines of `{paths[0]}`" + "".join(f", then those of `{path}`" for path in paths[1:]))


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th` …"""
    teens = 10 <= number % 100 <= 20  # noqa: PLR2004 - how English counts
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _split(rest: Words, with_value: str = "") -> tuple[dict[str, str], Words] | None:
    """Short options with their values, and what else there is; None for a long option."""
    options: dict[str, str] = {}
    others: list[str] = []
    waiting = iter(rest)
    for word in waiting:
        if word.startswith("--"):
            return None
        if not word.startswith("-") or word == "-":
            others.append(word)
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in with_value:
                options[letter] = letters or next(waiting, "")
                break
            options[letter] = ""
    return options, tuple(others)


def _source(before: Flow | None, paths: Words) -> Flow | None:
    return lines_of(paths) if paths else before


def _cat(rest: Words, before: Flow | None) -> Flow | None:
    return None if any(word.startswith("-") for word in rest) else _source(before, rest)


def _grep(rest: Words, before: Flow | None) -> Flow | None:
    split = _split(rest, "e")
    if split is None or set(split[0]) - set("ivcEFwhe"):
        return None
    options, others = split
    pattern, paths = (options["e"], others) if "e" in options else (others[:1] or ("",), others[1:])
    wanted = pattern if isinstance(pattern, str) else pattern[0]
    flow = _source(before, paths)
    if flow is None or not wanted or len(paths) > 1 or flow.unit != "lines":
        return None
    plain = "F" in options or re.fullmatch(r"[\w ,:;/@%&=<>'\"!#~-]+", wanted)
    verb = ("contain" if plain else "match the regular expression") if "v" not in options else "do not contain"
    if "v" in options and not plain:
        verb = "do not match the regular expression"
    how = (" as a whole word" if "w" in options else "") + (" in upper or lower case" if "i" in options else "")
    kept = f"those that {verb} `{wanted}`{how}"
    told = flow.then(f"only {kept}")
    what = flow.phrase.removeprefix("the ")
    return Flow(f"the number of {what} that {verb} `{wanted}`{how}", "number") if "c" in options else told


def _sort(rest: Words, before: Flow | None) -> Flow | None:
    split = _split(rest, "kt")
    flow = _source(before, split[1]) if split else None
    if split is None or flow is None or flow.unit != "lines" or set(split[0]) - set("urnkt"):
        return None
    options = split[0]
    key = re.fullmatch(r"(\d+)([nr]*)(?:,(\d+)([nr]*))?", options.get("k", ""))
    if "k" in options and (key is None or (key[3] and key[3] != key[1])):
        return None
    letters = set(options) | (set(key[2] + (key[4] or "")) if key else set())
    by = f" by the {ordinal(int(key[1]))} field" + ("" if key[3] else " and what follows it") if key else ""
    fields = f" (fields separated by `{options['t']}`)" if "t" in options else ""
    how = " as numbers" if "n" in letters else ""
    way = "descending" if "r" in letters else "ascending"
    once = ", each once" if "u" in options else ""
    ties = " (ties by the whole line, in the same direction)" if (how or by) and not once else ""
    return replace(flow.then(f"sorted{by}{fields}{how} in {way} order{ties}{once}"), is_ordered=True)


def _uniq(rest: Words, before: Flow | None) -> Flow | None:
    if before is None or rest not in ((), ("-c",), ("-d",)):
        return None
    if rest == ("-d",):
        return before.then("only those that come more than once in a row, each once")
    counted = "before each how often it came, right-aligned in seven columns, and a blank"
    once = before.then("equal ones in a row only once")
    return once.then(counted) if rest else once


def _count(rest: Words, before: Flow | None) -> Flow | None:
    nouns = {"-l": "lines", "-w": "words", "-c": "bytes"}
    if len(rest) != 1 or rest[0] not in nouns or before is None or before.unit != "lines":
        return None
    noun = nouns[rest[0]]
    what = before.phrase if noun == "lines" and not before.ends else f"{noun} in {before.phrase}"
    return Flow(f"the number of {what.removeprefix('the ')}", "number")


def _end(rest: Words, before: Flow | None, *, which: str) -> Flow | None:
    rest = tuple(f"-n{word[1:]}" if re.fullmatch(r"-\d+", word) else word for word in rest)
    split = _split(rest, "n")
    flow = _source(before, split[1]) if split else None
    if split is None or flow is None or set(split[0]) - {"n"} or len(split[1]) > 1:
        return None
    number = split[0].get("n", "10")
    if number.startswith("+") and which == "last":
        return flow.then(f"from the {ordinal(int(number[1:]))} on")
    if not number.isdigit():
        return None
    only = f"only the {which}" if number == "1" else f"only the {which} {number}"
    return flow.then(f"{only} of these")


def _cut(rest: Words, before: Flow | None) -> Flow | None:
    split = _split(rest, "dfc")
    flow = _source(before, split[1]) if split else None
    if split is None or flow is None or len(split[1]) > 1 or set(split[0]) - set("dfc"):
        return None
    options = split[0]
    if "c" in options:
        return flow.then(f"of each only the characters {options['c']}")
    between = "a tab" if "d" not in options else "a blank" if options["d"] == " " else f"`{options['d']}`"
    return flow.then(f"of each only field {options.get('f')} (fields separated by {between})")


def _tr(rest: Words, before: Flow | None) -> Flow | None:
    cases = {("a-z", "A-Z"): "upper", ("A-Z", "a-z"): "lower"}
    cases |= {("[:lower:]", "[:upper:]"): "upper", ("[:upper:]", "[:lower:]"): "lower"}
    case = cases.get((rest[0], rest[1])) if len(rest) == 2 else None  # noqa: PLR2004 - from and to
    return before.then(f"all letters in {case} case") if before and case else None


def _seq(rest: Words, before: Flow | None) -> Flow | None:
    del before
    bounds = rest if len(rest) == 2 else ("1", *rest)  # noqa: PLR2004 - from and to
    is_plain = len(bounds) == 2 and all(re.fullmatch(r"-?\d+", one) for one in bounds)  # noqa: PLR2004 - as above
    return Flow(f"the whole numbers from {bounds[0]} to {bounds[1]} in ascending order") if is_plain else None


def _tac(rest: Words, before: Flow | None) -> Flow | None:
    flow = _source(before, rest)
    return flow.then("in reverse order") if flow else None


def _sed(rest: Words, before: Flow | None) -> Flow | None:
    scripts = [word for word in rest if not word.startswith("-")]
    flow = _source(before, tuple(scripts[1:])) if scripts else None
    changed = (
        substitution(scripts[0]) if scripts and all(w in ("-i", "-E", "-e") for w in rest if w[0] == "-") else None
    )
    return flow.then(changed) if flow and changed else None


def substitution(script: str) -> str | None:
    """What `s/…/…/` does, where both sides are plain text."""
    found = re.fullmatch(r"s(.)([\w .:=,@#%-]+)\1([\w .:=,@#%/-]*)\1(g?)", script)
    if found is None or "." in found[2]:
        return None
    which = "every" if found[4] else "the first"
    new = f"`{found[3]}`" if found[3] else "nothing"
    return f"with {which} `{found[2]}` of each line replaced by {new}"


_PRINTED: Final = re.compile(
    r"\s*(?:\$(\d+)\s*(>=|<=|>|<|==)\s*(-?[\d.]+)\s*)?\{\s*print\s+((?:\$\d+)(?:\s*,\s*\$\d+)*)\s*\}\s*"
)
_SUMMED: Final = re.compile(r"\s*\{\s*(\w+)\s*\+=\s*\$(\d+)\s*;?\s*\}\s*END\s*\{\s*print\s+\1\s*;?\s*\}\s*")
_COMPARED: Final = {">": "greater than", "<": "less than", ">=": "at least", "<=": "at most", "==": "equal to"}


def _awk(rest: Words, before: Flow | None) -> Flow | None:
    split = _split(rest, "F")
    if split is None or set(split[0]) - {"F"} or not split[1]:
        return None
    flow = _source(before, split[1][1:])
    between = f"`{split[0]['F']}`" if "F" in split[0] else "white space"
    if flow is None or len(split[1]) > 2:  # noqa: PLR2004 - a program and a file
        return None
    if summed := _SUMMED.fullmatch(split[1][0]):
        return Flow(
            f"the sum of the {ordinal(int(summed[2]))} fields (separated by {between}) of {flow.phrase}", "number"
        )
    printed = _PRINTED.fullmatch(split[1][0])
    if printed is None:
        return None
    if printed[1]:
        flow = flow.then(f"only those whose {ordinal(int(printed[1]))} field is {_COMPARED[printed[2]]} {printed[3]}")
    fields = [ordinal(int(one)) for one in re.findall(r"\d+", printed[4])]
    noun = "field" if len(fields) == 1 else "fields"
    joined = "" if len(fields) == 1 else ", a blank between them"
    return flow.then(f"of each only the {' and the '.join(fields)} {noun} (fields separated by {between}){joined}")


def _find(rest: Words, before: Flow | None) -> Flow | None:
    del before
    folders = [word for word in rest[:1] if not word.startswith("-")]
    pairs = dict(zip(rest[len(folders) :: 2], rest[len(folders) + 1 :: 2], strict=False))
    if len(folders) != 1 or set(pairs) - {"-name", "-type"} or pairs.get("-type", "f") not in "fd":
        return None
    noun = {"f": "files", "d": "folders"}.get(pairs.get("-type", ""), "files and folders")
    named = f" whose names match `{pairs['-name']}`" if "-name" in pairs else ""
    begun = f", each path beginning with `{folders[0]}`"
    return Flow(f"the paths of the {noun} in and below `{folders[0]}`{named}{begun}", is_ordered=False)


def _list(rest: Words, before: Flow | None) -> Flow | None:
    del before
    if len(rest) > 1 or any(word.startswith("-") or "*" in word for word in rest):
        return None
    return Flow(f"the names of what is in {f'`{rest[0]}`' if rest else 'the folder'}, one per line, sorted")


def _tee(rest: Words, before: Flow | None) -> Flow | None:
    del rest
    return before


def printed_by(words: Words, before: Flow | None) -> Flow | None:
    """What a program of the task's own prints; None for words that are no such call."""
    interpreted = words[0] in ("python3", "bash", "sh") and len(words) > 1
    rest = tuple(word for word in words[1:] if word not in ("-B", "-u")) if interpreted else words
    if not rest or rest[0].startswith("-") or (not interpreted and not rest[0].startswith("./")):
        return None
    called = f" with the arguments `{' '.join(rest[1:])}`" if rest[1:] else ""
    fed = f", with {before.phrase} as its input" if before else ""
    return Flow(f"what the program `{rest[0].removeprefix('./')}` prints when it is run{called}{fed}", "text")


PHRASES: Final[Mapping[str, Callable[[Words, Flow | None], Flow | None]]] = {
    "cat": _cat,
    "grep": _grep,
    "sort": _sort,
    "uniq": _uniq,
    "wc": _count,
    "head": lambda rest, before: _end(rest, before, which="first"),
    "tail": lambda rest, before: _end(rest, before, which="last"),
    "cut": _cut,
    "tr": _tr,
    "seq": _seq,
    "tac": _tac,
    "sed": _sed,
    "awk": _awk,
    "find": _find,
    "ls": _list,
    "tee": _tee,
}
"""By the name of the program; a phrase of the words after it, and of what came through the pipe."""
