"""Which licence a checkout is under, as far as its licence file begins like one that is known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["licence_of"]

LARGEST_BYTES: Final = 64 << 10
BEGINNING: Final = 3000
"""Signs that a licence is known by. Further down, files quote the licences of others."""
_NAMES: Final = re.compile(r"(?i)(licen[cs]e|copying|unlicense)([.-][a-z0-9.-]+)?")
_KNOWN: Final = (
    ("AGPL-3.0", r"GNU AFFERO GENERAL PUBLIC LICENSE Version 3"),
    ("LGPL-3.0", r"GNU LESSER GENERAL PUBLIC LICENSE Version 3"),
    ("GPL-3.0", r"GNU GENERAL PUBLIC LICENSE Version 3"),
    ("GPL-2.0", r"GNU GENERAL PUBLIC LICENSE Version 2"),
    ("Apache-2.0", r"Apache License,? Version 2\.0"),
    ("MPL-2.0", r"Mozilla Public License,? Version 2\.0"),
    ("CC0-1.0", r"CC0 1\.0 Universal"),
    ("CC-BY-SA-4.0", r"Attribution-ShareAlike 4\.0 International"),
    ("CC-BY-NC-4.0", r"Attribution-NonCommercial 4\.0 International"),
    ("CC-BY-4.0", r"Attribution 4\.0 International"),
    ("ISC", r"Permission to use, copy, modify, and(?:/or)? distribute this software for any purpose"),
    ("MIT", r"Permission is hereby granted, free of charge, to any person obtaining a copy"),
    ("BSD-3-Clause", r"Redistribution and use in source and binary forms.*Neither the name"),
    ("BSD-2-Clause", r"Redistribution and use in source and binary forms"),
    ("Unlicense", r"This is free and unencumbered software released into the public domain"),
)


def licence_of(folder: Path) -> str | None:
    """The SPDX name of the licence in the folder's own licence files; None where there is none that is known.

    Where several files name different ones, nothing is said.
    """
    found = set()
    for path in sorted(folder.iterdir()):
        if _NAMES.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                found.add(_named_in(" ".join(file.read(LARGEST_BYTES).decode("utf-8", "replace").split())[:BEGINNING]))
    return found.pop() if len(found) == 1 else None


def _named_in(text: str) -> str | None:
    return next((name for name, words in _KNOWN if re.search(words, text, re.IGNORECASE | re.DOTALL)), None)
