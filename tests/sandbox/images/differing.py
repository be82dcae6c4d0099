"""What an image holds, as a table that two builders can be compared by."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sandbox.images.making import entry, folder, tar_of
from termarena.sandbox.images.store import FILES

if TYPE_CHECKING:
    from termarena.sandbox.images import ImageConfig, ImageShelf

RECIPES = Path(__file__).with_name("recipes.txt")
EXEMPT = frozenset({".dockerenv", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab", "dev", "proc", "sys", ""})
"""What an engine or a sandbox puts there itself; and what lies below dev, proc and sys."""

Row = tuple[object, ...]


@dataclass(frozen=True)
class Case:
    """One Dockerfile of the suite."""

    name: str
    text: str
    is_quick: bool
    ignore: str | None


def read_cases() -> list[Case]:
    cases = []
    for section in RECIPES.read_text().split("=== ")[1:]:
        title, _, text = section.partition("\n")
        name, *marks = title.split(" ", 1)
        words = marks[0] if marks else ""
        is_quick = words.startswith("ci")
        _, has_ignore, ignore = words.partition("ignore=")
        cases.append(Case(name, text, is_quick, ignore.replace(",", "\n") if has_ignore else None))
    return cases


def busybox_root(target: Path) -> bytes:
    """A root file system with every tool of busybox, two users, and something to change."""
    program = Path("/bin/busybox")
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()  # noqa: S603 - a fixed program
    for place in ("bin", "etc", "tmp", "root", "srv/below", "opt/tree/deep", "home/alice", "usr/lib"):
        (target / place).mkdir(parents=True)
    for name in names:
        if name != "busybox":
            (target / "bin" / name).symlink_to("busybox")
    (target / "bin/busybox").write_bytes(program.read_bytes())
    (target / "bin/busybox").chmod(0o755)
    (target / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nalice:x:1234:1234::/home/alice:/bin/sh\n")
    (target / "etc/group").write_text("root:x:0:\nalice:x:1234:\nstaff:x:50:alice\n")
    (target / "etc/motd").write_text("welcome\n")
    (target / "opt/tree/old").write_text("old\n")
    (target / "opt/tree/deep/er").write_text("deep\n")
    (target / "opt/link").symlink_to("tree")
    (target / "tmp").chmod(0o1777)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(target, arcname=".", filter=_owned)
    return out.getvalue()


def _owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 1234 if info.name.startswith("./home/alice") else 0
    info.uname = info.gname = ""
    return info


def make_context(target: Path) -> None:
    for place in ("dir/sub", "dir/emptydir", "empty", "links", "modes/inner"):
        (target / place).mkdir(parents=True)
    for name in ("a.txt", "b.txt", "odd name.txt", "dir/x", "dir/sub/z", "dir/y", "modes/plain"):
        (target / name).write_text(f"content of {name}\n")
    (target / "run.sh").write_text("#!/bin/sh\n")
    (target / "run.sh").chmod(0o755)
    (target / "modes/open").write_text("o")
    (target / "modes/open").chmod(0o777)
    (target / "modes/secret").write_text("s")
    (target / "modes/secret").chmod(0o600)
    (target / "modes/inner").chmod(0o700)
    (target / "links/soft").symlink_to("../a.txt")
    (target / "links/dangling").symlink_to("/nowhere")
    (target / "link").symlink_to("a.txt")
    packed = tar_of(
        folder("deep", mode=0o750, uid=5, gid=6),
        entry("deep/file", b"packed", mode=0o640, uid=7, gid=8),
        entry("top", b"t"),
        entry("not/listed/above", b"n"),
    )
    (target / "files.tar").write_bytes(packed)
    (target / "files.tar.gz").write_bytes(gzip.compress(packed, mtime=0))


def index_of(stream: IO[bytes]) -> dict[str, Row]:
    """Each entry of an archive: kind, mode, owner, target, digest of the content."""
    rows: dict[str, Row] = {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for info in archive:
            name = info.name.removeprefix("./").rstrip("/")
            if info.islnk():
                rows[name] = rows[info.linkname.removeprefix("./")]
                continue
            file = archive.extractfile(info) if info.isreg() else None
            digest = hashlib.file_digest(file, "sha256").hexdigest() if file is not None else ""  # type: ignore[arg-type] # has what is needed
            kind = "file" if info.isreg() else info.type.decode()
            mode = 0 if info.issym() else info.mode & 0o7777
            rows[name] = (kind, oct(mode), info.uid, info.gid, info.linkname if info.issym() else "", digest)
    return rows


def cleaned(rows: dict[str, Row]) -> dict[str, Row]:
    return {
        name: row for name, row in rows.items() if name not in EXEMPT and not name.startswith(("dev/", "proc/", "sys/"))
    }


async def our_index(shelf: ImageShelf, config: ImageConfig) -> dict[str, Row]:
    """The merged files of an image, from its layers as they would be exported."""
    merged: dict[str, Row] = {}
    for layer in shelf.store.layers_of(config):
        found: dict[str, Row] = {}
        async with shelf.driver.worker(layer.folder) as worker:
            await worker.pack(FILES, lambda stream, found=found: found.update(index_of(stream)))  # type: ignore[misc] # a loop's own value
        for path, (uid, gid) in layer.owners.items():
            if path in found:
                kind, mode, _, _, *rest = found[path]
                found[path] = (kind, mode, uid, gid, *rest)
        merged = _laid_over(merged, found)
    return cleaned(merged)


def _laid_over(below: dict[str, Row], above: dict[str, Row]) -> dict[str, Row]:
    gone: list[str] = []
    for name in above:
        parent, _, last = name.rpartition("/")
        if last == ".wh..wh..opq":
            gone.append(f"{parent}/")
        elif last.startswith(".wh."):
            hidden = f"{parent}/{last[4:]}".lstrip("/")
            gone += [hidden + "/", hidden]
        elif above[name][0] != "5":
            gone.append(f"{name}/")
    kept = {
        name: row
        for name, row in below.items()
        if not any(name == path or (path.endswith("/") and name.startswith(path)) for path in gone)
    }
    return kept | {name: row for name, row in above.items() if not name.rpartition("/")[2].startswith(".wh.")}


def docker(*words: str, check: bool = True) -> str:
    command = ["docker", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the engine's own client
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def docker_index(image: str) -> dict[str, Row]:
    container = docker("create", image, "nothing")
    try:
        with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as process:  # noqa: S603, S607 - as above
            assert process.stdout is not None
            return cleaned(index_of(process.stdout))
    finally:
        docker("rm", container)


def settings_of(config: dict[str, Any]) -> dict[str, Any]:
    """How commands run, in the words of a configuration; absent and empty are the same."""
    names = (
        "Env", "WorkingDir", "User", "Entrypoint", "Cmd", "Labels", "ExposedPorts", "Volumes", "Healthcheck",
        "StopSignal", "OnBuild", "Shell",
    )  # fmt: skip
    return {name: config[name] for name in names if config.get(name)}
