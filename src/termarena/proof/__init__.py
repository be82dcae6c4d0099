"""Proof: what a task is worth, found by trying. No model, no tokens."""
