#!/bin/sh
# Tries to write the verdict itself instead of the file.
mkdir -p /logs/verifier
echo 1 >/logs/verifier/reward.txt
