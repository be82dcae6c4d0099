"""The code that runs in the fork server and as process 1 of each sandbox.

It is started with `python -I -S` and must import nothing but a small part of the standard library and its own
siblings: every module it loads is memory in every sandbox, and after the change of root an import would load the
sandbox's files.
"""
