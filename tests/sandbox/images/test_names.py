from __future__ import annotations

import pytest

from termarena.core.errors import ImageError
from termarena.sandbox.images import ImageName

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "full", "short"),
    [
        ("debian", "docker.io/library/debian:latest", "debian:latest"),
        ("debian:12", "docker.io/library/debian:12", "debian:12"),
        ("index.docker.io/a/b", "docker.io/a/b:latest", "a/b:latest"),
        ("localhost/x:1", "localhost/x:1", "localhost/x:1"),
        ("127.0.0.1:5000/x", "127.0.0.1:5000/x:latest", "127.0.0.1:5000/x:latest"),
        (f"ghcr.io/a/b:t@{DIGEST}", f"ghcr.io/a/b:t@{DIGEST}", f"ghcr.io/a/b:t@{DIGEST}"),
        (f"debian@{DIGEST}", f"docker.io/library/debian@{DIGEST}", f"debian@{DIGEST}"),
    ],
)
def test_names_are_filled_in_as_docker_does(text: str, full: str, short: str) -> None:
    name = ImageName.parse(text)
    assert (str(name), name.short) == (full, short)
    assert ImageName.parse(full) == name


@pytest.mark.parametrize("text", ["", "Debian", "a//b", "a:b:c", "a@sha256:1", "../x", "a b", "-a/b", "x" * 600])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ImageError, match="no name of an image"):
        ImageName.parse(text)
