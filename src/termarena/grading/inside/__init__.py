"""What goes into sandboxes as it is: any Python 3 runs it, and it imports nothing of ours."""
