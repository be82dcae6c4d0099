"""Tasks of several services."""

from __future__ import annotations

import pytest

from termarena.core.errors import ImageError
from termarena.sandbox import SandboxSpec
from termarena.sandbox.docker.composition import rewrite


def test_file_is_made_ours() -> None:
    document = {"version": "3", "services": {"main": {"build": "."}, "db": {"image": "x", "labels": ["a=b"]}}}
    made = rewrite(document, SandboxSpec(), service="main", tags={"t": "1"}, source="f", image=None)
    assert made["services"]["db"]["labels"] == {"a": "b", "t": "1"}
    assert made["services"]["main"]["build"] == {"context": ".", "labels": {"t": "1"}}
    assert made["networks"] == {"default": {"labels": {"t": "1"}, "internal": True}}
    assert "version" not in made


@pytest.mark.parametrize("key", ["privileged", "network_mode", "pid"])
def test_file_that_reaches_out_is_refused(key: str) -> None:
    document = {"services": {"main": {"image": "x", key: "host"}}}
    with pytest.raises(ImageError, match=key):
        rewrite(document, SandboxSpec(), service="main", tags={}, source="f", image=None)


def test_file_without_the_service() -> None:
    with pytest.raises(ImageError, match="there is: client"):
        rewrite({"services": {"client": {}}}, SandboxSpec(), service="main", tags={}, source="f", image=None)
