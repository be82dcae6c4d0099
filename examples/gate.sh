#!/usr/bin/env bash
# Two conditions for a change: every task is proven, and the agent is not worse than the one before.
#   gate.sh TASKS POLICY AGENT BASELINE_RUN
set -euo pipefail
tasks=$1 policy=$2 agent=$3 baseline=$4

termarena tasks validate "$tasks" --strict
termarena prove "$tasks" --gate "$policy" --out proofs

termarena run --path "$tasks" --agent "$agent" --attempts 3 --out candidate
word=$(termarena compare candidate "$baseline" --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["pairs"][0]["word"])')
echo "candidate against baseline: $word"
[ "$word" != worse ]
