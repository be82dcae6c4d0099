"""Stand-ins in a living sandbox: laid, seen to be changed, and taken away again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import SandboxFileError
from termarena.grading.stand_ins import StandIns
from termarena.sandbox import SandboxSpec

if TYPE_CHECKING:
    from grading.bench import Bench
    from termarena.sandbox import Sandbox

pytestmark = [pytest.mark.needs("user-namespaces")]
MODULES = r"""
mkdir -p /app/html /opt/deep && cd /app
echo 'A = 1' >json.py; chmod 640 json.py; echo 'A = 1' >/opt/deep/x.py; ln -s /opt/deep/x.py difflib.py
echo 'A = 1' >html/__init__.py; echo 'B = 2' >html/parser.py; mkdir queue.py; mkfifo bisect.py; ln -s /opt/deep calendar
mkdir __pycache__; python3 -m py_compile json.py; cp __pycache__/json.* cmd.pyc; cp cmd.pyc /opt/deep/__init__.pyc
"""
LISTED = "find /app /opt /.termarena* -printf '%p %y %m %U %s %l\\n' 2>/dev/null | sort; cat /app/json.py /app/html/*"


async def _listed(box: Sandbox) -> str:
    return (await box.exec(["sh", "-c", LISTED])).stdout.decode()


async def test_what_stood_there_is_put_back_as_it_was(bench: Bench) -> None:
    async with bench.driver.start(SandboxSpec(workdir="/app")) as box:
        assert (await box.exec(["sh", "-ec", MODULES])).exit_status == 0
        before, changes = await _listed(box), await box.diff()
        shadows = [one for one in changes.changes if one.path.startswith("/app/") and one.kind != "folder"]
        shadows = [one for one in shadows if "parser" not in one.path and "__pycache__" not in one.path]
        laid = await StandIns.lay(box, shadows, changes)
        assert await _listed(box) != before
        assert await laid.altered() == ()
        assert b"taken_from_elsewhere" in await box.read("/app/difflib.py")
        await box.exec(["sh", "-c", "echo 'A = 2' >/app/json.py; rm /app/html/__init__.py; touch /app/json.so"])
        assert await laid.altered() == ("/app/html/__init__.py", "/app/json.py", "/app/json.so")
        await box.exec(["rm", "/app/json.so"])
        await laid.take_away()
        assert await _listed(box) == before


async def test_where_none_can_be_laid_everything_is_put_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench.driver.start(SandboxSpec(workdir="/app")) as box:
        await box.exec(["sh", "-ec", MODULES])
        before, changes = await _listed(box), await box.diff()
        shadows = [one for one in changes.changes if one.path in ("/app/json.py", "/app/difflib.py")]

        async def write(path: str, *_: object, **__: object) -> None:
            raise SandboxFileError("write", path, problem="no room")

        monkeypatch.setattr(box, "write", write)
        with pytest.raises(SandboxFileError, match="no room"):
            await StandIns.lay(box, shadows, changes)
        assert await _listed(box) == before


async def test_a_file_that_cannot_be_put_aside_leaves_all_the_others_in_their_places(bench: Bench) -> None:
    refusing = '#!/bin/sh\ncase $* in *-kept/2) echo stuck >&2; exit 1 ;; esac\nexec /usr/bin/mv "$@"\n'
    async with bench.driver.start(SandboxSpec(workdir="/app")) as box:
        await box.exec(["sh", "-ec", MODULES])
        await box.write("/usr/local/bin/mv", refusing.encode(), mode=0o755)
        before, changes = await _listed(box), await box.diff()
        shadows = [one for one in changes.changes if one.path in ("/app/json.py", "/app/difflib.py")]
        with pytest.raises(SandboxFileError, match="stuck"):
            await StandIns.lay(box, shadows, changes)
        assert await _listed(box) == before
