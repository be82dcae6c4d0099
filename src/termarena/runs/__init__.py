"""Runs: trials, their journal, resuming, retries, grading again."""
