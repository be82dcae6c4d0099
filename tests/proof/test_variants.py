"""Equivalence variants: which there are, and that each is still a script."""

from __future__ import annotations

import subprocess

from termarena.proof.variants import variants_of

SCRIPT = """\
#!/bin/sh
set -eu
cp a.txt /app/a.txt
cp b.txt /app/b.txt
chmod 755 /app/b.txt
mkdir -p /app/out && echo x >/app/out/x
sort -r /app/a.txt >/app/sorted
"""


def _scripts(name: str) -> list[str]:
    return [one.script for one in variants_of(SCRIPT) if one.name == name]


def test_only_neighbours_that_share_no_path_change_places() -> None:
    swapped = SCRIPT.replace("cp a.txt /app/a.txt\ncp b.txt /app/b.txt\n", "cp b.txt /app/b.txt\ncp a.txt /app/a.txt\n")
    assert _scripts("reordered") == [swapped]


def test_commands_are_said_in_other_words() -> None:
    assert SCRIPT.replace("chmod 755", "chmod u=rwx,go=rx") in _scripts("other-words")
    assert SCRIPT.replace("sort -r", "sort --reverse") in _scripts("other-words")


def test_what_is_added_comes_after_the_first_line() -> None:
    (extra,) = _scripts("extra-files")
    assert extra.startswith("#!/bin/sh\nmkdir -p")
    assert extra.endswith(SCRIPT.removeprefix("#!/bin/sh\n"))


def test_every_variant_is_a_script() -> None:
    variants = variants_of(SCRIPT)
    assert len(variants) >= 7
    for one in variants:
        assert subprocess.run(["/bin/bash", "-n"], input=one.script.encode(), check=False).returncode == 0, one.script


def test_a_script_that_does_not_parse_has_none() -> None:
    assert variants_of("if then (\n") == ()
