"""One stage of a build: each instruction carried out in its turn, on the state that the ones before it left."""

from __future__ import annotations

import asyncio
import posixpath
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import BuildError, CapabilityMissing, SandboxFileError
from termarena.sandbox.images.copying import Copying, CopyOrder, is_archive, picked_in
from termarena.sandbox.images.expansion import BadSubstitution, expand
from termarena.sandbox.images.fetching import fetch_file
from termarena.sandbox.images.heredocs import expand_text, script_of, untabbed
from termarena.sandbox.images.making import Made
from termarena.sandbox.images.mounting import MountPlaces, locked, plan_mount, source_of
from termarena.sandbox.images.recipe import names_folder, refuse
from termarena.sandbox.images.running import Lines, bounded
from termarena.sandbox.units import nanoseconds_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from termarena.sandbox.images.config import ImageConfig
    from termarena.sandbox.images.context import Context, Picked
    from termarena.sandbox.images.making import LayerMaker, Owners
    from termarena.sandbox.images.mounting import Planned, Taken
    from termarena.sandbox.images.recipe import Instruction
    from termarena.sandbox.namespace.box import NamespaceSandbox

__all__ = ["StageWork", "Surroundings"]

SHELL: Final = ("/bin/sh", "-c")
TAIL_LINES: Final = 40


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all stages of a build share."""

    source: str
    context: Context
    maker: LayerMaker
    say: Callable[[str], None]
    given: Mapping[str, str]
    """The arguments of the build."""
    image_named: Callable[[str], Awaitable[ImageConfig]]
    """The image of an earlier stage, by name or number, or of any name."""
    scratch: Path
    """A folder for downloads and for what is bound."""
    secrets: Mapping[str, Path] = field(default_factory=dict)
    """The files of `RUN --mount=type=secret`."""
    escape: str = "\\"
    caches: Path | None = None
    """Holds cache mounts that outlive the build."""
    timeout_s: float | None = None
    """How long one RUN may take."""
    disk_bytes: int = 32 << 30
    """How much one RUN may write."""


@dataclass(slots=True)
class StageWork:
    """The state of one stage."""

    around: Surroundings
    config: ImageConfig
    outer: Mapping[str, str]
    """The values of the ARGs before the first FROM."""
    arguments: dict[str, str] = field(default_factory=dict)
    has_own_cmd: bool = False
    step: str = ""
    """As it is told: `Step 2/3 : RUN make`."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))

    async def carry_out(self, one: Instruction, step: str) -> bool:
        """One instruction; whether nothing had to be done. Raises `BuildError`."""
        self.step = step
        try:
            done = getattr(self, f"_{one.name.lower()}")(one)
            made = done if done is None or isinstance(done, Made) else await done
        except BadSubstitution as error:
            raise refuse(self.around.source, one.line, str(error), text=step) from error
        except SandboxFileError as error:
            raise self._failed(one, str(error)) from error
        except CapabilityMissing as error:
            raise self._failed(one, str(error), hint=error.hint) from error
        if made is None:
            return True
        self.config = made.config
        return bool(made.was_cached)

    def _failed(self, one: Instruction, problem: str, *, hint: str | None = None) -> BuildError:
        return BuildError(
            self.around.source,
            f"line {one.line}: {problem}",
            step=self.step,
            log_tail="\n".join(self.tail),
            hint=hint,
            cause="task",
        )

    # Values.

    @property
    def _values(self) -> dict[str, str]:
        return {**self.arguments, **self.config.environment}

    def _filled(self, text: str) -> str:
        return expand(text, self._values, escape=self.around.escape)

    def _absolute(self, path: str) -> str:
        joined = posixpath.join("/", self.config.workdir or "/", path)
        normal = posixpath.normpath(joined)
        normal = normal[1:] if normal.startswith("//") else normal
        return f"{normal}/" if names_folder(path) and normal != "/" else normal

    def _command(self, one: Instruction) -> tuple[str, ...]:
        return one.words if one.is_json else (*(self.config.shell or SHELL), one.words[0])

    # Instructions that only say something.

    def _env(self, one: Instruction) -> None:
        names, values = one.words[::2], one.words[1::2]
        filled = [(self._filled(name), self._filled(value)) for name, value in zip(names, values, strict=True)]
        for name, value in filled:
            self.config = self.config.with_variable(name, value)

    def _arg(self, one: Instruction) -> None:
        for word in one.words:
            name, equals, default = word.partition("=")
            if name in self.around.given:
                self.arguments[name] = self.around.given[name]
            elif equals:
                self.arguments[name] = self._filled(default)
            elif name in self.outer:
                self.arguments[name] = self.outer[name]

    def _label(self, one: Instruction) -> None:
        pairs = zip(one.words[::2], one.words[1::2], strict=True)
        found = {self._filled(name): self._filled(value) for name, value in pairs}
        self.config = replace(self.config, labels=tuple({**dict(self.config.labels), **found}.items()))

    def _expose(self, one: Instruction) -> None:
        ports = [port if "/" in port else f"{port}/tcp" for word in one.words for port in self._filled(word).split()]
        self.config = replace(self.config, ports=tuple(dict.fromkeys((*self.config.ports, *ports))))

    def _volume(self, one: Instruction) -> None:
        found = [self._filled(word) for word in one.words]
        self.config = replace(self.config, volumes=tuple(dict.fromkeys((*self.config.volumes, *found))))

    def _user(self, one: Instruction) -> None:
        self.config = replace(self.config, user=self._filled(one.words[0]))

    def _shell(self, one: Instruction) -> None:
        self.config = replace(self.config, shell=one.words)

    def _cmd(self, one: Instruction) -> None:
        self.config = replace(self.config, cmd=self._command(one))
        self.has_own_cmd = True

    def _entrypoint(self, one: Instruction) -> None:
        cmd = self.config.cmd if self.has_own_cmd else None
        self.config = replace(self.config, entrypoint=self._command(one), cmd=cmd)

    def _stopsignal(self, one: Instruction) -> None:
        self.config = replace(self.config, stop_signal=self._filled(one.words[0]))

    def _maintainer(self, _: Instruction) -> None:
        """Given up by Docker: it changes nothing that a container shows."""

    def _onbuild(self, one: Instruction) -> None:
        self.config = replace(self.config, onbuild=(*self.config.onbuild, one.words[0]))

    def _healthcheck(self, one: Instruction) -> None:
        kind = one.words[0].upper()
        if kind not in ("NONE", "CMD") or (kind == "CMD" and len(one.words) < 2):  # noqa: PLR2004 - CMD and a command
            raise refuse(self.around.source, one.line, "HEALTHCHECK takes NONE or CMD with a command", text=self.step)
        test = ["NONE"] if kind == "NONE" else [*(("CMD",) if one.is_json else ("CMD-SHELL",)), *one.words[1:]]
        told: dict[str, Any] = {"Test": test}
        for flag, value in one.flags:
            words = {"interval": "Interval", "timeout": "Timeout", "start-period": "StartPeriod", "retries": "Retries"}
            key = words.get(flag, "StartInterval")
            told[key] = self._count(value, one) if flag == "retries" else self._nanoseconds(value, one)
        self.config = replace(self.config, healthcheck=told)

    def _count(self, text: str, one: Instruction) -> int:
        if not text.isdecimal():
            raise refuse(self.around.source, one.line, f"{text} is no number", text=self.step)
        return int(text)

    def _nanoseconds(self, text: str, one: Instruction) -> int:
        try:
            return nanoseconds_of(text)
        except ValueError as error:
            raise refuse(self.around.source, one.line, str(error), text=self.step) from error

    # Instructions that make layers.

    async def _workdir(self, one: Instruction) -> Made:
        place = self._absolute(self._filled(one.words[0])).rstrip("/") or "/"
        self.config = replace(self.config, workdir=place)

        async def nothing_more(_: NamespaceSandbox) -> Owners:
            return {}

        return await self.around.maker.make(self.config, ["WORKDIR", place], nothing_more, workdir=place)

    async def _run(self, one: Instruction) -> Made:
        mode = one.flag("network") or "default"
        if mode not in ("default", "none"):
            raise refuse(self.around.source, one.line, f"RUN --network={mode} is not supported", text=self.step)
        taken = await self._taken(one)
        planned = await asyncio.to_thread(self._mounts, one, taken)
        mounts = tuple(each.mount for each in planned if each.mount is not None)
        argv = list(one.words) if one.is_json else [*(self.config.shell or SHELL), script_of(one)]
        declared = {name: value for name, value in self.arguments.items() if name not in self.config.environment}
        env = {**declared, **self.config.environment}
        user = self.config.user or "root"
        key = ["RUN", argv, sorted(env.items()), user, self.config.workdir, mode, [each.key for each in planned]]

        async def run(box: NamespaceSandbox) -> Owners:
            lines = Lines(self._hear)
            cwd = self.config.workdir or "/"
            command = box.exec_told(argv, lines.take, user=user, cwd=cwd, env=env, timeout_s=self.around.timeout_s)
            async with locked([each.lock for each in planned if each.lock is not None]):
                places = [mount.at for mount in mounts if mount.is_writable]
                done = await bounded(box, command, disk_bytes=self.around.disk_bytes, places=places)
            lines.finish()
            if done is None:
                raise self._failed(one, f"the command wrote more than {self.around.disk_bytes} bytes")
            if done.timed_out:
                raise self._failed(one, f"the command did not end within {self.around.timeout_s:g} s")
            if done.exit_status != 0:
                raise self._failed(one, f"the command ended with status {done.exit_status}")
            return {} if self._has_users else await _owners_of_links(box)

        network = None if mode == "none" else self.around.maker.network
        return await self.around.maker.make(self.config, key, run, network=network, mounts=mounts)

    async def _taken(self, one: Instruction) -> dict[str, Taken]:
        """What its mounts take from other stages and images, copied out with its owners."""
        found = {}
        for text in [self._filled(value) for name, value in one.flags if name == "mount"]:
            source = source_of(text)
            if source is None or self.around.maker.makes_nothing:
                continue
            config = await self.around.image_named(source.image)
            found[text] = await self.around.maker.copy_out(config, source.path, self.around.scratch)
        return found

    def _mounts(self, one: Instruction, taken: Mapping[str, Taken]) -> list[Planned]:
        """What the step sees beside the layers."""
        around = self.around
        places = MountPlaces(around.context, around.caches, around.secrets, around.scratch, self._absolute, taken)
        planned = []
        for text in [value for name, value in one.flags if name == "mount"]:
            try:
                planned.append(plan_mount(self._filled(text), places))
            except (ValueError, FileNotFoundError) as error:
                raise refuse(around.source, one.line, f"RUN {error}", text=self.step) from error
        return planned

    def _hear(self, line: str) -> None:
        self.tail.append(line)
        self.around.say(line)

    async def _copy(self, one: Instruction) -> Made:
        order = self._order(one)
        if one.flag("from") is None:
            return await self._copy_from_context(one, order)
        source = await self.around.image_named(self._filled(str(one.flag("from"))))
        words = [self._filled(word) for word in one.words[:-1]]
        key = ["COPY --from", source.diff_ids, words, _told(order)]

        async def copy(box: NamespaceSandbox) -> Owners:
            copying = Copying(box, order, self._has_users)
            async with self.around.maker.looking_at(source) as other:
                for word in words:
                    try:
                        picked = await picked_in(other, word)
                    except ValueError as error:
                        raise self._failed(one, str(error)) from error
                    self._check_picked(one, word, picked)
                    for each in picked:
                        await copying.from_box(other, each)
            return copying.owners

        return await self.around.maker.make(self.config, key, copy)

    @property
    def _has_users(self) -> bool:
        return self.around.maker.shelf.driver.ids.has_users

    def _order(self, one: Instruction) -> CopyOrder:
        owner = one.flag("chown")
        mode = one.flag("chmod")
        try:
            number = None if mode is None else int(self._filled(mode), 8)
        except ValueError as error:
            raise refuse(self.around.source, one.line, f"--chmod={mode} is no octal mode", text=self.step) from error
        sources = [word for word in one.words[:-1] if word]
        return CopyOrder(
            target=self._absolute(self._filled(one.words[-1])),
            owner=None if owner is None else self._filled(owner),
            mode=number,
            is_many=len(sources) > 1,
        )

    def _check_picked(self, one: Instruction, word: str, picked: list[Picked]) -> None:
        if not picked:
            raise self._failed(one, f"{word} is not there")
        if len(picked) > 1 and not names_folder(self._filled(one.words[-1])):
            raise self._failed(one, f"{word} names several files, and the destination does not end with /")

    async def _copy_from_context(self, one: Instruction, order: CopyOrder, *, unpacks: bool = False) -> Made:
        context, texts = self.around.context, {heredoc.name: heredoc for heredoc in one.heredocs}
        jobs: list[tuple[str, Any]] = []
        key: list[object] = [one.name, _told(order)]
        for word in one.words[:-1]:
            heredoc = texts.get(word.lstrip("<-").strip("'\"")) if word.startswith("<<") else None
            if heredoc is not None:
                body = untabbed(heredoc.content) if word.startswith("<<-") else heredoc.content
                text = body if heredoc.is_literal else expand_text(body, self._values)
                jobs.append((heredoc.name, text.encode()))
                key.append([heredoc.name, text])
                continue
            picked = self._pick(one, self._filled(word))
            jobs += [("", each) for each in picked]
            digests = [await asyncio.to_thread(context.digest, each, "x") for each in picked]
            key += [[each.path, each.is_folder, digest] for each, digest in zip(picked, digests, strict=True)]

        async def copy(box: NamespaceSandbox) -> Owners:
            copying = Copying(box, order, self._has_users)
            for name, job in jobs:
                file = "" if name else str(context.folder / job.path)
                if name:
                    await copying.write(name, job)
                elif unpacks and not job.is_folder and is_archive(file):
                    await copying.unpack(file)
                else:
                    await copying.from_context(context, job)
            return copying.owners

        return await self.around.maker.make(self.config, key, copy)

    def _pick(self, one: Instruction, word: str) -> list[Picked]:
        try:
            picked = self.around.context.pick(word)
        except ValueError as error:
            raise self._failed(one, str(error)) from error
        self._check_picked(one, word, picked)
        return picked

    async def _add(self, one: Instruction) -> Made:
        order = self._order(one)
        words = [self._filled(word) for word in one.words[:-1]]
        addresses = [word for word in words if word.startswith(("http://", "https://"))]
        if any(word.startswith(("git@", "git://", "ssh://")) or word.endswith(".git") for word in words):
            raise refuse(self.around.source, one.line, "ADD of a git repository is not supported", text=self.step)
        if not addresses:
            if one.flag("checksum") is not None:
                raise refuse(self.around.source, one.line, "--checksum is for an address only", text=self.step)
            return await self._copy_from_context(one, order, unpacks=True)
        if len(words) > 1:
            raise refuse(self.around.source, one.line, "ADD of several sources with an address", text=self.step)
        if self.around.maker.makes_nothing:
            return Made(self.config, was_cached=False)
        fetched = await fetch_file(
            addresses[0],
            self.around.scratch,
            checksum=one.flag("checksum"),
            network=self.around.maker.network,
            fetches=self.around.maker.fetches,
        )

        async def add(box: NamespaceSandbox) -> Owners:
            copying = Copying(box, replace(order, mode=0o600 if order.mode is None else order.mode), self._has_users)
            await copying.from_context(fetched.context, fetched.picked)
            return copying.owners

        return await self.around.maker.make(self.config, ["ADD", addresses[0], fetched.digest, _told(order)], add)


async def _owners_of_links(box: NamespaceSandbox) -> Owners:
    """Of what a step made and cannot carry its owner itself, where there is one id."""
    told = await box.layer_job("owners_of_links", "/")
    return {path: (int(uid), int(gid)) for path, (uid, gid) in told["owners"].items()}


def _told(order: CopyOrder) -> list[object]:
    return [order.target, order.owner, order.mode, order.is_many]
