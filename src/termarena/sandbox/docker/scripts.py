"""What runs inside a container on our behalf: POSIX shell with builtins only, since an image may hold nothing else.

Every command is marked by its soft limit of locked memory, an inherited number that no ordinary program looks at: a
new session and a double fork keep it, so that a timeout finds every process the command started.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = [
    "GATE",
    "KEEPER",
    "KILL",
    "LIMIT_KB",
    "OWN_PROCESSES",
    "SCAN",
    "SCANNED",
    "STRUCK",
    "coded_words",
    "mark_bytes",
]

LIMIT_KB: Final = 8192
"""The container's limit of locked memory, Linux's default; a mark lies below it."""
MARKS: Final = 4000
STRIKE_S: Final = 30
"""How long a shell inside tries to end processes before it says that it could not."""
LOOKS: Final = 100
"""After how many looks it stops bystanders too, for a moment: a shell on a terminal may notice, so this comes last."""
SCANNED: Final = "scanned"
STRUCK: Final = "struck"

OWN_PROCESSES: Final = 2
"""The init and the keeper, which do not count against a task's limit."""

KEEPER: Final = "while :; do read -r _ || exit; done"
"""The container's own command: it waits for a word on an input that never ends."""

GATE: Final = (
    'ulimit -S -l "$1" 2>/dev/null; cd "$2" 2>/dev/null || cd "${3:-/dev/null/}" 2>/dev/null ||'
    ' { echo "!cwd" >&2; exit 125; };'
    ' unset $4; coded=$5; shift 5; [ "$coded" ] && { left=$#; while [ $left != 0 ]; do'
    ' word=$(printf "%b." "$1"); word=${word%.}; shift; set -- "$@" "$word"; left=$((left - 1)); done; };'
    ' echo "!pid $$" >&2; read -r _ || exit 125; exec "$@"'
)
"""Mark in kB, folder, folder instead (none: refuse), names to unset, whether the words are coded, then the command.

It tells its number and begins when a line has come on its input, never when that ends instead. JSON has no words that
are not UTF-8, so those come in `printf`'s octal.
"""

_LOCKED: Final = """locked=
  { while read -r a b c d _; do [ "$a $b $c" = "Max locked memory" ] && { locked=$d; break; }; done < $folder/limits
  } 2>/dev/null"""

SCAN: Final = f"""
end=$1
for folder in /proc/[0-9]*; do
  pid=${{folder#/proc/}}
  [ "$pid" = $$ ] && continue
  {{ read -r line < $folder/stat; }} 2>/dev/null || continue
  set -- ${{line##*) }}
  [ "$2" = $$ ] && continue
  uid=
  {{ while read -r key value _; do [ "$key" = Uid: ] && {{ uid=$value; break; }}; done < $folder/status; }} 2>/dev/null
  {_LOCKED}
  echo "$pid $1 $2 $4 ${{uid:-0}} ${{locked:-0}} ${{18}}"
  if command -v cat >/dev/null; then cat $folder/cmdline
  else IFS= read -r words < $folder/cmdline; echo "$words"; fi 2>/dev/null
  echo; echo "$end"
done
echo "$end {SCANNED}"
"""
"""One record per process: a line of numbers, the words of its command line, a line that ends it; then a last line."""

KILL: Final = f"""
mark=$1 keeper=$2 how=$3
{{ read -r now _ < /proc/uptime; }} 2>/dev/null || exit 1
begun=${{now%%.*}}
is_late() {{ read -r now _ < /proc/uptime; [ $((${{now%%.*}} - begun)) -ge {STRIKE_S} ]; }}
halt() {{ halted=1; kill -STOP -1 2>/dev/null; }}
look() {{
found= gone=
for folder in /proc/[0-9]*; do
  pid=${{folder#/proc/}}
  case " $$ 1 $keeper $ended $others $resting $skipped " in *" $pid "*) continue ;; esac
  {{ read -r line < $folder/stat; }} 2>/dev/null || {{ gone=1; continue; }}
  set -- ${{line##*) }}
  case $1 in [ZX]) [ "${{18}}" -gt 1 ]; living=$? ;; *) living=0 ;; esac
  if [ "$mark" != all ]; then
    {_LOCKED}
    [ "$locked" ] || {{ gone=1; continue; }}
    if [ "$locked" != "$mark" ]; then
      if [ "$1" = T ] && [ ! "$halted" ]; then resting="$resting $pid"; else others="$others $pid"; fi
      continue
    fi
  fi
  [ $living = 0 ] || {{ gone=1 ended="$ended $pid"; continue; }}
  found="$found $pid"
done
}}
looks=0 halted= ended= others= resting= skipped= left=
[ "$mark" = all ] && halt
[ "$keeper" != 0 ] && others=$keeper
while look; [ "$found$gone" ]; do
  [ "$found" ] && kill -STOP $found 2>/dev/null
  skipped="$skipped$found"
  is_late && {{ left=1; break; }}
  looks=$((looks + 1))
  [ $looks = {LOOKS} ] && [ ! "$halted" ] && halt
done
set -- $skipped
if [ "$how" = TERM ]; then
  [ "$skipped" ] && {{ kill -TERM $skipped; kill -CONT $skipped; }} 2>/dev/null
else
  skipped=
  while look; [ "$found" ]; do
    kill -KILL $found 2>/dev/null
    is_late && {{ left=1; break; }}
  done
fi
[ "$halted" ] && [ "$others" ] && kill -CONT $others 2>/dev/null
echo "$# ${{left:+not }}{STRUCK}"
"""
"""Mark or `all`, the keeper's number, TERM or KILL: what is to die is stopped first, so that nothing forks away.

A look skips whom an earlier one has stopped, found unmarked or found ended. It may not ask whether a process is stopped
by now: one in `vfork` obeys only when its child, which is stopped too, has gone on. One that ended before or under the
look may have left a child that came too late for the list, so that another look follows. A chain of processes that
fork and end faster than a shell can look is caught when the kernel stops everyone in one step, which for `all` comes
first; those that are not to die then go on.
"""


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
