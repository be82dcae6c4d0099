"""What runs inside a container on our behalf: POSIX shell with builtins only, since an image may hold nothing else.

Every command is marked by its soft limit of locked memory, an inherited number that no ordinary program looks at: a
new session and a double fork keep it, so that a timeout finds every process the command started.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["GATE", "KEEPER", "KILL", "LIMIT_KB", "SCAN", "coded_words", "mark_bytes"]

LIMIT_KB: Final = 8192
"""The container's limit of locked memory, Linux's default; a mark lies below it."""
MARKS: Final = 4000

KEEPER: Final = "while :; do read -r _ || exit; done"
"""The container's own command: it waits for a word on an input that never ends."""

GATE: Final = (
    'ulimit -S -l "$1" 2>/dev/null; cd "$2" 2>/dev/null || cd "${3:-/dev/null/}" 2>/dev/null ||'
    ' { echo "!cwd" >&2; exit 125; };'
    ' unset $4; coded=$5; shift 5; [ "$coded" ] && { left=$#; while [ $left != 0 ]; do'
    ' word=$(printf "%b." "$1"); word=${word%.}; shift; set -- "$@" "$word"; left=$((left - 1)); done; };'
    ' echo "!pid $$" >&2; read -r _; exec "$@"'
)
"""Mark in kB, folder, folder instead (none: refuse), names to unset, whether the words are coded, then the command.

It tells its number and begins when a line has come on its input. JSON has no words that are not UTF-8, so those come
in `printf`'s octal.
"""

_EACH: Final = """
for folder in /proc/[0-9]*; do
  pid=${folder#/proc/}
  [ "$pid" = $$ ] && continue
  { read -r line < $folder/stat; } 2>/dev/null || continue
  rest=${line##*) }
"""

SCAN: Final = (
    "end=$1\n"
    + _EACH
    + """
  set -- $rest
  [ "$2" = $$ ] && continue
  uid= locked=
  { while read -r key value _; do [ "$key" = Uid: ] && { uid=$value; break; }; done < $folder/status
  while read -r a b c d _; do [ "$a $b $c" = "Max locked memory" ] && { locked=$d; break; }; done < $folder/limits
  } 2>/dev/null
  echo "$pid $1 $2 $4 ${uid:-0} ${locked:-0}"
  if command -v cat >/dev/null; then cat $folder/cmdline
  else IFS= read -r words < $folder/cmdline; echo "$words"; fi 2>/dev/null
  echo; echo "$end"
done
"""
)
"""One record per process: a line of numbers, the words of its command line, a line that ends it."""

KILL: Final = (
    """
mark=$1 keeper=$2 first=$3
hit() {
count=0
"""
    + _EACH
    + """
  case "$rest" in Z*) continue ;; T*) [ "$1" = STOP ] && continue ;; esac
  [ "$pid" = 1 ] || [ "$pid" = "$keeper" ] && continue
  if [ "$mark" != all ]; then
    locked=
    { while read -r a b c d _; do [ "$a $b $c" = "Max locked memory" ] && { locked=$d; break; }; done < $folder/limits
    } 2>/dev/null
    [ "$locked" = "$mark" ] || continue
  fi
  kill -$1 $pid 2>/dev/null && count=$((count + 1))
done
}
total=0
while hit STOP; [ $count != 0 ]; do total=$((total + count)); done
if [ "$first" = TERM ]; then hit TERM; hit CONT; echo $total; exit; fi
while hit KILL; [ $count != 0 ]; do :; done
echo $total
"""
)
"""Mark or `all`, the keeper's number, TERM or KILL: what is to die is stopped first, so that nothing forks away."""


def coded_words(words: tuple[str, ...]) -> list[str]:
    """The flag for the gate and the words, coded where one of them is not UTF-8."""
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return ["1", *("".join(f"\\0{byte:03o}" for byte in os.fsencode(word)) for word in words)]
    return ["", *words]


def mark_bytes(number: int) -> int:
    """The soft limit that marks the command with this running number."""
    return (LIMIT_KB - 1 - number % MARKS) << 10
