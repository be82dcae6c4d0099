"""The arena: a server that takes in runs, ranks them and shows them. Needs the extra `arena`."""
