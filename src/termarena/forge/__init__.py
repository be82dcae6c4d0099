"""The forge: terminal recordings in, proven tasks out; one file per stage, each a function of the one before."""
