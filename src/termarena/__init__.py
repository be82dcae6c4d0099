"""TermArena: the place where terminal agents are measured.

Importing this package prints, reads and creates nothing; the rooms (`termarena.tasks`, …) are imported by those who use
them.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
