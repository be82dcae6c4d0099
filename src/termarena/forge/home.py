"""A forge's folder: its settings, its ledger, and the tasks it made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.core.given_files import read_given_toml
from termarena.core.records import write_atomically
from termarena.forge.making import MakingConfig

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SETTINGS", "TASKS", "init", "settings_of"]

SETTINGS: Final = "forge.toml"
TASKS: Final = "tasks"
_TEXT: Final = """\
# Where the gates of this forge stand, and what it may use. Thresholds are from 0 to 1.

# A replay that is less like its recording than this is refused.
least_fidelity = {least_fidelity}
# Tests that tell fewer partial solutions from the whole one are refused.
least_mutation_score = {least_mutation_score}
# What the Dockerfiles of tasks begin with: Debian 12, from wherever you have it.
base_image = "{base_image}"
# Make a session that takes programs which this machine does not have on the image of its Dockerfile; uses a network.
build_images = false

# Repositories that a session cloned, as they were on its day; fetching them uses a network.
[repositories]
fetch = false

# Packages of the recording's day: an archive of Debian by the moment, an index of Python with times of uploads.
# [packages]
# debian_archive = "http://HOST/archive/debian"
# python_index = "https://HOST/simple"

# What may be made at all; the other thresholds of screening can stand here too.
[screen]
least_commands = {least_commands}
least_state_changes = {least_state_changes}
least_quality = {least_quality}

# A language model may score a recording, propose another wording or a repair; it never decides. Nothing is asked of one
# unless these lines stand here.
# [model]
# name = "openai:MODEL"        # as for `termarena run --model`
# usd = 5.0                    # for all recordings of a run together; tokens = ... likewise
# recording_usd = 0.05         # for each
# repairs = 1
"""


def init(folder: Path) -> Path:
    """Make a forge's folder with its settings; what is there already stays. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SETTINGS
    if not path.exists():
        config = MakingConfig()
        values = {**config.model_dump(), **config.screen.model_dump()}
        write_atomically(path, _TEXT.format(**values).encode())
    return path


def settings_of(folder: Path) -> MakingConfig:
    """The settings in a forge's folder; the defaults where there is no such file. Raises `UsageError`."""
    path = folder / SETTINGS
    if not path.exists():
        return MakingConfig()
    return read_given_toml(MakingConfig, path, hint="mend it, or remove it and run forge init to see what there is")
