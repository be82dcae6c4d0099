"""One sandbox's time with a recording."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from termarena.core.errors import MissingExtra
from termarena.core.scrub import Scrubber
from termarena.sandbox.fetches.trust import trust_environment, trust_files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from termarena.sandbox.fetches.recording import Recorder
    from termarena.sandbox.fetches.replaying import Replayer
    from termarena.sandbox.fetches.serving import FetchProxy
    from termarena.sandbox.proxy import Inside
    from termarena.sandbox.spec import Fetches, Network

__all__ = ["FetchSession", "open_fetches"]


@dataclass(frozen=True, slots=True)
class FetchSession:
    """What a sandbox needs to be recorded, or to be given what was."""

    proxy: FetchProxy
    certificate: bytes

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for every command, over whatever else is said of them."""
        return trust_environment()

    def files(self, *, has_users: bool) -> Mapping[str, bytes]:
        """What is to lie in the sandbox, by path; `has_users`: whether there are others than root."""
        return trust_files(self.certificate, has_users=has_users)


@asynccontextmanager
async def open_fetches(
    fetches: Fetches, network: Network, *, inside: Inside | None = None
) -> AsyncIterator[FetchSession]:
    """Record, or replay, for as long as a sandbox lives. `inside` connects to what is its own: that is neither.

    Leaving it raises `FetchNotRecorded` if a replay was asked for something else, whatever the sandbox made of that,
    and `DigestMismatch` for a content that is not what was recorded. Entering raises `MissingExtra`, `TaskFormatError`
    for an index that is none or a folder that is a link, and `FetchError` for a folder that cannot be written.
    """
    try:
        from termarena.sandbox.fetches.authority import Authority  # noqa: PLC0415 - of an extra
        from termarena.sandbox.fetches.serving import FetchProxy  # noqa: PLC0415 - as above
    except ImportError as error:
        raise MissingExtra("cryptography and h11", extra="images", purpose="recording what is fetched") from error
    authority = Authority()
    opening: AbstractAsyncContextManager[Recorder | Replayer] = _source(fetches, network)
    async with opening as source:
        session = FetchSession(FetchProxy(source, authority, inside=inside), authority.certificate)
        try:
            yield session
        except Exception as error:
            if source.fault is not None:
                raise source.fault from error
            raise
        if source.fault is not None:
            raise source.fault


def _source(fetches: Fetches, network: Network) -> Recorder | Replayer:
    from termarena.sandbox.fetches.recording import Recorder  # noqa: PLC0415 - httpx is an extra
    from termarena.sandbox.fetches.replaying import Replayer  # noqa: PLC0415 - beside it

    scrubber = Scrubber.from_environment(os.environ)
    return (
        Recorder(fetches.folder, network, scrubber) if fetches.mode == "record" else Replayer(fetches.folder, scrubber)
    )
