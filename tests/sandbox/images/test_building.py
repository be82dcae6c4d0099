"""Builds of Dockerfiles by ourselves: what an engine of the old kind cannot show, the cache, and what goes wrong."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.images.making import owners_in
from sandbox.support import out
from termarena.core.errors import BuildError, DigestMismatch, ImageError
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import BuildOptions, Built, build_image, image_for, plan_build
from termarena.sandbox.images.expansion import BadSubstitution, expand
from termarena.sandbox.images.mounting import locked
from termarena.sandbox.images.recipe import parse_recipe
from termarena.sandbox.images.recorded import read_images
from termarena.sandbox.spec import Fetches, Network
from termarena.sandbox.staging import Stage
from termarena.tasks.files import FileTree, TreeFile
from termarena.tasks.model import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox.images import ImageShelf


def _write(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(text)


async def build(shelf: ImageShelf, folder: Path, text: str, **options: Any) -> Built:  # noqa: ANN401 - of BuildOptions
    _write(folder, text)
    options = {"network": Network(mode="none"), **options}
    return await build_image(shelf, folder, "t/built:1", BuildOptions(**options))


@pytest.fixture
async def based(shelf: ImageShelf, root_tar: Path) -> ImageShelf:
    await shelf.import_archive(root_tar, name="base")
    return shelf


async def said(shelf: ImageShelf, script: str) -> str:
    async with shelf.driver.start(SandboxSpec(root=Root(kind="image", image="t/built:1"))) as box:
        return await out(box, script)


async def test_steps_build_on_each_other(based: ImageShelf, tmp_path: Path) -> None:
    text = "FROM base\nENV WORD=said\nWORKDIR /app\nRUN echo $WORD > one; rm /etc/motd\n"
    text += "COPY file .\nRUN cat one file > two\n"
    (tmp_path / "c").mkdir()
    (tmp_path / "c/file").write_text("copied\n")
    built = await build(based, tmp_path / "c", text)
    assert not built.was_cached
    assert built.image.mode == based.driver.ids.kind
    assert await said(based, "pwd; cat two; ls /etc/motd 2>/dev/null || echo gone") == "/app\nsaid\ncopied\ngone"
    prepared = await based.driver.prepare(SandboxSpec(root=Root(kind="image", image="t/built:1")))
    async with based.driver.start(prepared.spec) as box:
        around = await box.surroundings()
    assert (around.workdir, around.env["WORD"]) == ("/app", "said")


async def test_a_second_build_does_nothing_and_a_changed_file_only_what_follows(
    based: ImageShelf, tmp_path: Path
) -> None:
    text = "FROM base\nRUN echo $RANDOM > /before\nCOPY file /\nRUN cat /file > /after\n"
    lines: list[str] = []
    (tmp_path / "c").mkdir()
    (tmp_path / "c/file").write_text("1")
    first = await build(based, tmp_path / "c", text)
    again = await build(based, tmp_path / "c", text, on_log=lines.append)
    assert again.was_cached
    assert again.image.id == first.image.id
    assert lines.count(" ---> Using cache") == 3
    (tmp_path / "c/file").touch()
    assert (await build(based, tmp_path / "c", text)).was_cached
    (tmp_path / "c/file").write_text("2")
    changed = await build(based, tmp_path / "c", text)
    assert changed.image.config.diff_ids[:2] == first.image.config.diff_ids[:2]
    assert changed.image.config.diff_ids[2:] != first.image.config.diff_ids[2:]
    assert await said(based, "cat /after") == "2"
    assert not (await build(based, tmp_path / "c", text, use_cache=False)).was_cached


async def test_what_a_failing_step_said_and_nothing_is_left(based: ImageShelf, tmp_path: Path) -> None:
    text = "FROM base\nRUN echo fine\nRUN echo to out; echo to err >&2; exit 7\n"
    lines: list[str] = []
    with pytest.raises(BuildError, match="line 3: the command ended with status 7") as caught:
        await build(based, tmp_path / "c", text, on_log=lines.append)
    assert caught.value.step == "Step 3/3 : RUN echo to out; echo to err >&2; exit 7"
    assert sorted(caught.value.log_tail.splitlines()) == ["fine", "to err", "to out"]
    assert caught.value.cause == "task"
    assert lines[:3] == ["Step 1/3 : FROM base", "Step 2/3 : RUN echo fine", "fine"]
    assert [image.name for image in based.store.images()] == ["docker.io/library/base:latest"]
    assert len(list(based.store.layers_folder.iterdir())) == 1


async def test_heredocs(based: ImageShelf, tmp_path: Path) -> None:
    text = (
        "FROM base\nARG WHO=world\nRUN <<EOF\necho script > /one\necho $WHO >> /one\nEOF\n"
        "RUN cat <<'A' > /two && cat <<-B >> /two\n$WHO stays\nA\n\ttabs go\n\tB\n"
        "COPY <<X <<'Y' /files/\nhello $WHO\nX\nhello $WHO 'quoted'\nY\n"
    )
    await build(based, tmp_path / "c", text)
    assert await said(based, "cat /one /two") == "script\nworld\n$WHO stays\ntabs go"
    assert await said(based, "cat /files/X /files/Y") == "hello world\nhello $WHO 'quoted'"


async def test_chmod_and_chown_of_a_copy(based: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "c/d").mkdir(parents=True)
    (tmp_path / "c/d/f").write_text("x")
    built = await build(based, tmp_path / "c", "FROM base\nCOPY --chmod=750 --chown=1234:5 d /made/d\n")
    rows = (await said(based, "ls -ldn /made/d /made/d/f")).splitlines()
    assert [row.split()[0] for row in rows] == ["drwxr-xr-x", "-rwxr-x---"]
    layer = based.store.layers_of(built.image.config)[-1]
    assert rows[1].split()[2:4] == ["1234", "5"]
    assert layer.owners.get("made/d/f") == (None if based.driver.ids.has_users else (1234, 5))


async def test_owners_can_be_changed_in_a_step(based: ImageShelf, tmp_path: Path) -> None:
    """With one id too: they are recorded, and told to whoever asks."""
    lines: list[str] = []
    text = "FROM base\nRUN touch /x && ln /x /y && ln -s x /l && ln -s x /m "
    text += "&& chown 12:34 /x && chown -h 5:6 /l && ls -n /x /l\n"
    text += "RUN ls -n /x && chown 7 /x && mkdir -p /home/alice && chown 1234:1234 /home/alice\n"
    text += "USER alice\nRUN touch /home/alice/hers && chown 0 /x || echo refused\n"
    await build(based, tmp_path / "c", text, on_log=lines.append)
    rows = [line.split()[2:4] for line in lines if line.startswith(("-", "l"))]
    assert rows == [["5", "6"], ["12", "34"], ["12", "34"]]
    assert "refused" in lines
    listed = await said(based, "ls -n /x /home/alice/hers; chown 12 /x; ls -n /x; id -u")
    assert [row.split()[2:4] for row in listed.splitlines()[:-1]] == [["1234", "1234"], ["7", "34"], ["7", "34"]]
    assert listed.splitlines()[-1] == "1234"
    await based.export("t/built:1", tmp_path / "out.tar")
    exported = owners_in(tmp_path / "out.tar")
    assert [exported[name] for name in ("l", "m", "x", "y")] == [(5, 6), (0, 0), (7, 34), (12, 34)]


async def test_only_the_stages_that_are_needed(based: ImageShelf, tmp_path: Path) -> None:
    text = (
        "FROM base AS broken\nRUN exit 1\nFROM base AS used\nRUN echo x > /x\n"
        "FROM base AS last\nCOPY --from=used /x /y\nFROM base AS other\nRUN echo other > /o\n"
    )
    lines: list[str] = []
    await build(based, tmp_path / "c", text, target="last", on_log=lines.append)
    assert await said(based, "cat /y") == "x"
    assert [line for line in lines if line.startswith("Step")][-1] == "Step 4/4 : COPY --from=used /x /y"
    with pytest.raises(BuildError, match="has no stage none"):
        await build(based, tmp_path / "c", text, target="none")


async def test_an_address_is_added_and_checked(based: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served/file.bin").write_bytes(b"from the web")
    digest = hashlib.sha256(b"from the web").hexdigest()
    handler = partial(_Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/file.bin"
            network = Network(mode="allowlist", allowed_hosts=(f"127.0.0.1:{server.server_port}",))
            text = f"FROM base\nADD --checksum=sha256:{digest} {url} /got/\n"
            await build(based, tmp_path / "c", text, network=network)
            assert "from the web-rw-------" in await said(based, "cat /got/file.bin; ls -l /got/file.bin")
            text = f"FROM base\nADD --checksum=sha256:{'0' * 64} {url} /got/\n"
            with pytest.raises(ImageError, match="--checksum says"):
                await build(based, tmp_path / "c", text, network=network)
            for closed in (Network(mode="public"), Network(mode="none")):
                with pytest.raises(ImageError, match=r"the build's network does not reach 127\.0\.0\.1") as caught:
                    await build(based, tmp_path / "c", f"FROM base\nADD {url} /got/\n", network=closed)
                assert caught.value.cause == "task"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tests are silent."""


async def test_mounts_are_seen_and_land_in_no_layer(based: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "c/d").mkdir(parents=True)
    (tmp_path / "c/d/f").write_text("bound")
    (tmp_path / "word").write_text("secret word")
    text = (
        "FROM base\n"
        "RUN --mount=type=bind,source=d,target=/new/bound cat /new/bound/f > /seen; echo x > /new/bound/f || echo ro\n"
        "RUN --mount=type=cache,target=/cache,id=one echo $RANDOM >> /cache/n; ls /cache >> /seen\n"
        "RUN --mount=type=tmpfs,target=/memory,size=1m echo x > /memory/x; ls /memory >> /seen\n"
        "RUN --mount=type=secret,id=word cat /run/secrets/word > /dev/null && echo had >> /seen\n"
        "RUN --mount=type=secret,id=other ls /run/secrets 2>/dev/null || echo none >> /seen\n"
        "RUN --mount=type=cache,target=/elsewhere,id=one ls /elsewhere >> /seen\n"
    )
    lines: list[str] = []
    built = await build(
        based, tmp_path / "c", text, secrets={"word": tmp_path / "word"}, on_log=lines.append, cache_scope="s"
    )
    assert await said(based, "cat /seen") == "boundn\nx\nhad\nnone\nn"
    assert "ro" in lines
    assert (tmp_path / "c/d/f").read_text() == "bound"
    top = (await said(based, "ls /")).split()
    assert not {"new", "cache", "memory", "elsewhere"} & set(top)
    held = [
        path.read_bytes() for path in based.store.layers_folder.rglob("*") if path.is_file() and path.name != "lock"
    ]
    assert not any(b"secret word" in content for content in held)
    assert (await build(based, tmp_path / "c", text)).image.id == built.image.id
    based.close()
    await based.driver.aclose()
    await based.prune(everything=True)
    assert list((based.store.folder / "mounts").iterdir()) == []


async def test_a_step_without_network_reaches_nothing(based: ImageShelf, tmp_path: Path) -> None:
    await build(based, tmp_path / "c", "FROM base\nRUN --network=none echo ${http_proxy:-nothing} > /p\n")
    assert await said(based, "cat /p") == "nothing"


@pytest.mark.parametrize("ignored", ["", "*\n!fetches\n!file\n"])
async def test_a_recording_in_the_context_is_no_part_of_it(based: ImageShelf, tmp_path: Path, ignored: str) -> None:
    folder = tmp_path / "c/fetches"
    folder.mkdir(parents=True)
    (folder / "fetches.json").write_text('{"schema_version": 1, "kind": "fetches", "entries": []}')
    (tmp_path / "c/file").write_text("one")
    (tmp_path / "c/.dockerignore").write_text(ignored)
    text = "FROM base\nCOPY . /all\nCOPY f* /some/\nRUN --mount=target=/seen ls /seen > /told\n"
    await build(based, tmp_path / "c", text, fetches=Fetches(mode="replay", folder=folder))
    found = await said(based, "ls /all /some /told; cat /told")
    assert "fetches" not in found
    assert found.split("\n").count("file") == 3
    with pytest.raises(BuildError, match="fetches is not there"):
        await build(
            based, tmp_path / "c", "FROM base\nCOPY fetches /x\n", fetches=Fetches(mode="replay", folder=folder)
        )


async def test_steps_made_while_recording_are_no_other_builds(based: ImageShelf, tmp_path: Path) -> None:
    text, network = "FROM base\nRUN echo $SSL_CERT_FILE > /seen\n", Network(mode="public")
    recording = Fetches(mode="record", folder=tmp_path / "kept")
    await build(based, tmp_path / "c", text, network=network, fetches=recording)
    assert await said(based, "cat /seen") != ""
    plain = await build(based, tmp_path / "c", text, network=network)
    assert (plain.was_cached, await said(based, "cat /seen")) == (False, "")
    [image] = read_images(tmp_path / "kept").values()
    assert image.name == "docker.io/library/base:latest"
    blob = tmp_path / "kept/sha256" / image.digest.removeprefix("sha256:")
    assert blob.stat().st_size == image.size_bytes
    replay = Fetches(mode="replay", folder=tmp_path / "kept")
    based.store.forget("base")
    blob.unlink()
    blob.write_bytes(bytes(image.size_bytes))
    with pytest.raises((BuildError, DigestMismatch), match="sha256/"):
        await build(based, tmp_path / "c", text, network=network, fetches=replay)


async def test_a_recorded_archive_that_holds_another_image_is_refused(based: ImageShelf, tmp_path: Path) -> None:
    await build(based, tmp_path / "c", "FROM base\nENV OTHER=1\n")
    for name in ("base", "t/built:1"):
        await image_for(based, name, Fetches(mode="record", folder=tmp_path / "kept"))
    written = json.loads((tmp_path / "kept/images.json").read_text())
    base, other = written["images"]
    base.update(digest=other["digest"], size_bytes=other["size_bytes"])
    (tmp_path / "kept/images.json").write_text(json.dumps(written))
    based.store.forget("base")
    with pytest.raises(DigestMismatch, match=r"library/base:latest is sha256:\w+, and its archive holds sha256:"):
        await image_for(based, "base", Fetches(mode="replay", folder=tmp_path / "kept"))


async def test_a_task_with_a_dockerfile(based: ImageShelf, tmp_path: Path) -> None:
    files = FileTree.of(
        [TreeFile.inline("Dockerfile", b"FROM base\nWORKDIR /app\nCOPY f .\n"), TreeFile.inline("f", b"x")]
    )
    lines: list[str] = []
    stage = Stage(based.driver, on_log=lines.append)
    state = await stage.prepare(Environment(context=files), folder=tmp_path, task="t")
    assert not state.was_cached
    async with state.start() as box:
        assert await out(box, "pwd; cat f") == "/app\nx"
    again = await Stage(based.driver).prepare(Environment(context=files), folder=tmp_path, task="t")
    assert (again.was_cached, again.digest) == (True, state.digest)
    await stage.aclose()


REFUSED = {
    "FROM base\nFLY away\n": "line 2: FLY is no instruction",
    "FROM base\nRUN cat > f << 'EOF'\nimport os\nEOF\n": "line 3: import is no instruction",
    "RUN x\nFROM base\n": "line 1: RUN before the first FROM",
    "ARG A\n": "there is no FROM",
    "FROM base\nCOPY onlyone\n": "line 2: COPY needs a source and a destination",
    "FROM base\nCOPY a b /c\n": "line 2: with several sources",
    "FROM base\nRUN --security=insecure x\n": "line 2: RUN --security is not supported",
    "FROM base\nRUN --network=host x\n": "line 2: RUN --network=host is not supported",
    "FROM base\nRUN --mount=type=ssh x\n": "line 2: RUN --mount=type=ssh is not supported",
    "FROM base\nRUN --mount=type=cache,from=x,target=/x y\n": "line 2: RUN --mount=type=cache,from is not supported",
    "FROM base\nRUN --mount=type=secret,id=s,required=true x\n": "line 2: RUN the secret s was not given",
    "FROM base\nCOPY --parents a b\n": "line 2: COPY --parents is not supported",
    "FROM base\nADD git@example.org:x.git /x\n": "line 2: ADD of a git repository",
    "FROM base\nCOPY missing /x\n": "line 2: missing is not there",
    "FROM base\nCOPY ../x /x\n": "line 2: ../x leads outside",
    "FROM base\nENV A=${B:?must}\n": "line 2: B: must",
    "FROM base\nUSER\n": "line 2: USER needs an argument",
    "FROM base\nCOPY --chmod=rwx Dockerfile /x\n": "line 2: --chmod=rwx is no octal mode",
    "FROM --platform=linux/s390x base\n": "line 1: --platform=linux/s390x",
    "FROM base one two\n": "line 1: FROM takes an image",
    "FROM base\nSHELL /bin/sh\n": "line 2: SHELL takes a list",
    "FROM base\nHEALTHCHECK --interval=soon CMD true\n": "line 2: soon is no duration",
    "FROM base\nCOPY --chown=nobody-here Dockerfile /x\n": "no user nobody-here",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text.splitlines()[-1])
async def test_what_is_not_supported_names_the_line(based: ImageShelf, tmp_path: Path, text: str) -> None:
    with pytest.raises(BuildError) as caught:
        await build(based, tmp_path / "c", text)
    assert REFUSED[text] in str(caught.value)
    assert caught.value.cause == "task"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$A", "one"), ("${A}x", "onex"), ("$A$B", "one"), ("${B-word}", ""), ("${B:-word}", "word"),
        ("${C-$A}", "one"), ("${A:+set}", "set"), ("${C+set}", ""), ("'$A'", "$A"), ('"$A b"', "one b"),
        (r"\$A", "$A"), ("a$", "a$"), (r'"\$A"', "$A"), ("${C:-${A}}", "one"), ("pre'fix'", "prefix"),
    ],
)  # fmt: skip
def test_variables(text: str, value: str) -> None:
    assert expand(text, {"A": "one", "B": ""}) == value


@pytest.mark.parametrize("text", ["${A", "${}", "${A!x}", "'open", '"open', "${C?}", "${C:?why}"])
def test_bad_variables(text: str) -> None:
    with pytest.raises(BadSubstitution):
        expand(text, {"A": "one"})


def test_a_stage_may_be_named_like_an_earlier_one() -> None:
    recipe = parse_recipe("ARG T=1\nFROM a:$T AS x\nRUN one\nFROM x\nCOPY --from=x a b\n", "here")
    assert [stage.name for stage in recipe.stages] == ["x", ""]
    assert [len(stage.steps) for stage in recipe.stages] == [1, 1]


PLANNED = """ARG TAG=1
FROM elsewhere/tools:$TAG AS tools
RUN --mount=type=cache,target=/c make everything
FROM base
ENV WHERE=/app
WORKDIR $WHERE
COPY file .
COPY --from=tools /bin/tool /bin/
ADD https://files.example/archive.tar /x
CMD ["run"]
"""


async def test_a_plan_checks_every_step_and_makes_nothing(based: ImageShelf, tmp_path: Path) -> None:
    _write(tmp_path / "c", PLANNED)
    with pytest.raises(BuildError, match="line 7: file is not there"):
        await plan_build(based, tmp_path / "c")
    (tmp_path / "c/file").write_text("")
    before = sorted(path for path in based.store.folder.rglob("*") if path.parent.name != "locks")
    plan = await plan_build(based, tmp_path / "c")
    assert [step.partition(" : ")[2].split()[0] for step in plan.steps][:3] == ["FROM", "RUN", "FROM"]
    assert len(plan.steps) == 9
    assert (plan.bases, plan.missing) == (("base", "elsewhere/tools:1"), ("elsewhere/tools:1",))
    assert (plan.config.workdir, plan.config.cmd) == ("/app", ("run",))
    assert sorted(path for path in based.store.folder.rglob("*") if path.parent.name != "locks") == before


CACHED = (
    "FROM base\nARG TURN\nRUN --mount=type=cache,target=/cache,id=one{} echo $TURN >> /cache/n; cat /cache/n > /seen\n"
)


async def test_mounts_from_other_stages_and_written_ones_keep_owners_and_are_forgotten(
    based: ImageShelf, tmp_path: Path
) -> None:
    (tmp_path / "c/d").mkdir(parents=True)
    (tmp_path / "c/d/f").write_text("of the context")
    text = (
        "FROM base AS made\nRUN mkdir /out && echo made > /out/file && chown 12:34 /out/file\nFROM base\n"
        "RUN --mount=type=bind,from=made,source=/out,target=/in --mount=from=made,source=/out/file,target=/one \\\n"
        "    cat /in/file /one > /seen; ls -n /in/file >> /seen; touch /in/x 2>/dev/null || echo kept >> /seen\n"
        "RUN --mount=target=/ctx,rw --mount=source=d,target=/d,rw touch /d/more && ls /d > /listed && rm /ctx/d/f\n"
        "RUN --mount=target=/ctx cat /ctx/d/f > /still\n"
    )
    await build(based, tmp_path / "c", text)
    seen = (await said(based, "cat /seen; ls /in /one 2>/dev/null; cat /listed /still")).splitlines()
    assert seen[:2] == ["made", "made"]
    assert (seen[2].split()[2:4], seen[3:]) == (["12", "34"], ["kept", "f", "more", "of the context"])
    assert (tmp_path / "c/d/f").read_text() == "of the context"
    plan = await plan_build(based, tmp_path / "c")
    assert len(plan.steps) == 6


async def test_mounts_of_caches_are_shared_by_nobody_but_builds_of_one_scope(based: ImageShelf, tmp_path: Path) -> None:
    async def turn(number: str, scope: str, sharing: str = "") -> str:
        text = CACHED.format(sharing)
        built = await build(based, tmp_path / "c", text, arguments={"TURN": number}, cache_scope=scope)
        async with based.driver.start(SandboxSpec(root=Root(kind="image", image=built.image.id))) as box:
            return await out(box, "cat /seen")

    assert await turn("1", "mine") == "1"
    assert await turn("2", "mine") == "1\n2"
    assert await turn("3", "other") == "3"
    assert await turn("4", "mine", ",sharing=private") == "4"
    assert await turn("5", "mine", ",sharing=locked") == "1\n2\n5"
    assert [await turn(number, "") for number in ("6", "7")] == ["6", "7"]
    assert list((based.store.folder / "partial").iterdir()) == []
    with pytest.raises(BuildError, match="sharing=open is not known"):
        await turn("8", "mine", ",sharing=open")


async def test_a_locked_cache_is_one_builds_at_a_time(based: ImageShelf, tmp_path: Path) -> None:
    first = "FROM base\nRUN --mount=type=cache,target=/cache,id=one,sharing=locked echo begun; sleep 600\n"
    begun = asyncio.Event()

    def hear(line: str) -> None:
        if line == "begun":
            begun.set()

    holding = asyncio.create_task(build(based, tmp_path / "a", first, cache_scope="s", on_log=hear))
    await begun.wait()
    name = hashlib.sha256(b"one").hexdigest()
    [lock] = (based.store.folder / "mounts").rglob(f"{name}.lock")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), locked([lock]):
            raise AssertionError("it is not locked")
    holding.cancel()
    await asyncio.wait({holding})
    async with locked([lock]):
        assert lock.exists()


async def test_a_step_has_its_time_and_its_disk(based: ImageShelf, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="did not end within 1 s"):
        await build(based, tmp_path / "c", "FROM base\nRUN echo begun; sleep 600\n", step_timeout_s=1.0)
    fill = "FROM base\nRUN cat /bin/sh /bin/sh /bin/sh > /big; sleep 600\n"
    with pytest.raises(BuildError, match="wrote more than 100000 bytes"):
        await build(based, tmp_path / "c", fill, step_disk_bytes=100_000)
    fill = "FROM base\nRUN --mount=type=cache,target=/cache cat /bin/sh > /cache/big; sleep 600\n"
    with pytest.raises(BuildError, match="wrote more than 100000 bytes") as caught:
        await build(based, tmp_path / "c", fill, step_disk_bytes=100_000)
    assert caught.value.cause == "task"
