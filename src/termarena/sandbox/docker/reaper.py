"""A small process that outlives the harness: when its pipe to the harness closes, it removes what the harness left.

It is started by path, not as a module, and stands up just the packages it needs: with pydantic it would weigh 40 MB.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from termarena.sandbox.docker.address import Address

__all__ = ["Reaper"]

PATIENCE_S: Final = 120.0
"""How long to go on against an engine that does not answer."""
QUIET_PASSES: Final = 3
PAUSE_S: Final = 0.5
"""An engine may still be making what the dead harness had asked for: so many empty rounds, this far apart."""
FINISHED: Final = b"finished"
DISMISS_TIMEOUT_S: Final = 10.0


class Reaper:
    """The harness's end of it."""

    def __init__(self, address: Address, label: str) -> None:
        """Starts the process, in a session of its own so that no Ctrl-C reaches it."""
        told = {
            "scheme": address.scheme,
            "host": address.host,
            "port": address.port,
            "certificates": str(address.certificates) if address.certificates else None,
            "ssh_options": address.ssh_options,
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-E", "-S", __file__, json.dumps(told), label],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def dismiss(self) -> None:
        """Everything has been removed: end it."""
        stdin: IO[bytes] | None = self._process.stdin
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.write(FINISHED)
                stdin.close()
        try:
            self._process.wait(DISMISS_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _main() -> None:
    told, label = json.loads(sys.argv[1]), sys.argv[2]
    if sys.stdin.buffer.read() == FINISHED:
        return
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here.parents[2]))
    for name, folder in (("termarena.sandbox", here.parent), ("termarena.sandbox.docker", here)):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    from termarena.core.errors import EngineError  # noqa: PLC0415 - after the harness has gone
    from termarena.sandbox.docker.address import Address  # noqa: PLC0415 - as above
    from termarena.sandbox.docker.sweeping import remove_with  # noqa: PLC0415 - as above

    certificates = Path(told["certificates"]) if told["certificates"] else None
    address = Address(told["scheme"], told["host"], told["port"], certificates, tuple(told["ssh_options"]))
    quiet, end = 0, time.monotonic() + PATIENCE_S
    while quiet < QUIET_PASSES and time.monotonic() < end:
        try:
            quiet = 0 if remove_with(address, label) else quiet + 1
        except EngineError:
            quiet = 0
        if quiet < QUIET_PASSES:
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    _main()
