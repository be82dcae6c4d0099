#!/bin/sh
# Grades /app: 1 or 0 goes to /logs/verifier/reward.txt and, where the harness holds a pipe for it, into that.
PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
export PATH
mkdir -p /logs/verifier
file=/app/hello.txt
want='48 65 6c 6c 6f 2c 20 77 6f 72 6c 64 21 0a'
reward=1

check() {
    # check NAME COMMAND...: says how it went, and remembers a failure
    name=$1
    shift
    if "$@"; then
        echo "ok   $name"
    else
        echo "FAIL $name"
        reward=0
    fi
}

is_regular() { [ -f "$file" ] && [ ! -L "$file" ]; }

has_exact_bytes() {
    [ -f "$file" ] || return 1
    # unquoted on purpose: the words of od's output, joined by single blanks
    got=$(echo $(od -An -v -tx1 -N 64 "$file"))
    [ "$got" = "$want" ] && return 0
    echo "     expected: $want"
    echo "     found:    $got"
    return 1
}

check 'hello.txt is a regular file' is_regular
check 'hello.txt has exactly the 14 bytes asked for' has_exact_bytes
echo "$reward" >/logs/verifier/reward.txt
if [ -n "${TERMARENA_REWARD_FD:-}" ]; then
    echo "$reward" >&3
fi
