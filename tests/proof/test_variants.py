"""Equivalence variants: which there are, and that each is still a script."""

from __future__ import annotations

import subprocess

import pytest

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
    assert SCRIPT.replace("mkdir -p", "mkdir --parents") in _scripts("other-words")
    assert not any("--reverse" in one for one in _scripts("other-words")), "BusyBox has no long flags of sort"


def test_what_is_added_comes_after_the_first_line() -> None:
    (extra,) = _scripts("extra-files")
    assert extra.startswith("#!/bin/sh\nmkdir -p")
    assert extra.endswith(SCRIPT.removeprefix("#!/bin/sh\n"))


def test_every_variant_is_a_script() -> None:
    variants = variants_of(SCRIPT)
    assert len(variants) >= 6
    for one in variants:
        assert subprocess.run(["/bin/bash", "-n"], input=one.script.encode(), check=False).returncode == 0, one.script


@pytest.mark.parametrize(
    "script",
    [
        "cp new.sh /app/run.sh\nchmod 755 run.sh\n",
        'cp a "$HERE"\nrm -f "$THERE"\n',
        "touch /app/a\nrm -rf /app/x/../a\n",
    ],
)
def test_neighbours_that_may_mean_the_same_file_keep_their_places(script: str) -> None:
    assert [one for one in variants_of(script) if one.name == "reordered"] == []


def test_no_other_words_for_what_they_would_change() -> None:
    for script in ("chmod +x a\n", "cp a b -r\n", "rm -rf a --one-file-system\n"):
        assert [one.script for one in variants_of(script) if one.name == "other-words"] == []
    made = [one.script for one in variants_of("mkdir -p /tmp\nchmod a+x b\n") if one.name == "other-words"]
    assert made == ["mkdir --parents /tmp\nchmod a+x b\n", "mkdir -p /tmp\nchmod ugo+x b\n"]


def test_a_script_that_does_not_parse_has_none() -> None:
    assert variants_of("if then (\n") == ()
