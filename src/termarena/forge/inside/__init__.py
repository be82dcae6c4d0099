"""What runs inside sandboxes, at making and at grading: files of their own that import nothing of TermArena."""
