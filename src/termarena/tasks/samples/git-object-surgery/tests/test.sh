#!/bin/sh
# Grades /app: 1 or 0 goes to /logs/verifier/reward.txt and, where the harness holds a pipe for it, into that.
mkdir -p /logs/verifier
reward=0
if python3 -I -B -m unittest discover -v -s /tests -p 'test_*.py' 3>&-; then
    reward=1
fi
echo "$reward" >/logs/verifier/reward.txt
if [ -n "${TERMARENA_REWARD_FD:-}" ]; then
    echo "$reward" >&3
fi
