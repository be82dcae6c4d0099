from __future__ import annotations

from pathlib import Path

import pytest

from termarena.core.errors import UsageError
from termarena.core.home import Home, default_home


def test_the_default_follows_xdg() -> None:
    assert default_home({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/termarena")
    assert default_home({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/termarena")
    assert default_home({"XDG_CACHE_HOME": "", "HOME": "/h"}) == Path("/h/.cache/termarena")


def test_nothing_is_made_until_a_folder_is_asked_for(tmp_path: Path) -> None:
    home = Home(tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []
    assert home.folder("datasets", "one").is_dir()
    assert home.folder("datasets", "one") == tmp_path / "cache/datasets/one"
    assert (tmp_path / "cache/CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_a_folder_that_cannot_be_made_says_how_to_move_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot make the cache folder") as caught:
        Home(tmp_path / "file").folder("datasets")
    assert "TERMARENA_HOME" in str(caught.value.hint)
