"""Every change of the tables, in order."""
