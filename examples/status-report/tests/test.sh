#!/bin/sh
# Grades /app; writes 1 or 0 to /logs/verifier/reward.txt.
mkdir -p /logs/verifier
if python3 -I -B -m unittest discover -v -s /tests -p 'test_*.py'; then
  echo 1 >/logs/verifier/reward.txt
else
  echo 0 >/logs/verifier/reward.txt
fi
