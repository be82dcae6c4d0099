"""`termarena forge retrieve`: recordings onto the forge's shelf."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.forge_making import DEFAULT_FORGE, ForgeOption
from termarena.cli.output import ExitStatus, JsonOption, print_json, print_line, progress, say
from termarena.cli.serving_options import AllowNetworkOption

if TYPE_CHECKING:
    from termarena.forge.retrieving import Feed, Mode, Retrieved, ServerPlan

__all__ = ["retrieve"]

SHOWN_PROBLEMS = 20


def retrieve(  # noqa: PLR0913 - one parameter per option
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="https://HOST, https://HOST/a/ID, a folder, a checkout or a file.")
    ],
    *,
    forge: ForgeOption = DEFAULT_FORGE,
    feeds: Annotated[
        list[str] | None,
        typer.Option(
            "--feed", metavar="LIST", help="A list of a server: recent, featured, popular, public; may be given again."
        ),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--licence",
            metavar="NAME",
            help="What the recordings are under (CC-BY-4.0, own …); without it no original is asked of a server.",
        ),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Only what is missing or damaged; no list is read.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Everything again; tells what is gone.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Recordings at most.")] = None,
    pages: Annotated[
        int | None, typer.Option("--pages", metavar="N", min=1, help="Pages of each list at most.")
    ] = None,
    pause_s: Annotated[float, typer.Option("--pause", min=0, metavar="SECONDS", help="Between two requests.")] = 1.0,
    networks: AllowNetworkOption = None,
    json: JsonOption = False,
) -> None:
    """Bring recordings onto the forge's shelf, each with where it comes from and what it may be used under.

    \b
    termarena forge retrieve recordings/
    termarena forge retrieve ~/src/project --forge my-forge
    termarena forge retrieve https://asciinema.example --feed featured --limit 100
    termarena forge retrieve https://asciinema.example --refresh
    termarena forge retrieve https://casts.our-team.example --licence own

    Of a server: its lists, then each recording's page and transcript, as its robots.txt allows. Interrupted, the same
    command goes on. Exits 1 if something could not be had. Then: termarena forge run FORGE/recordings
    """
    from termarena.core.errors import UsageError
    from termarena.forge.home import init as make_folder

    if repair and refresh:
        raise UsageError("--repair and --refresh are two ways", hint="give one of them")
    make_folder(forge)
    if "://" not in source:
        done = _from_here(Path(source), forge, licence)
    else:
        from termarena.forge.retrieving import ServerPlan

        mode: Mode = "repair" if repair else "refresh" if refresh else "incremental"
        plan = ServerPlan(source, mode, _feeds(feeds), licence, pages, limit)
        done = _from_server(plan, forge, pause_s=pause_s, networks=networks or [])
    _show(done, forge, json=json)
    if done.failed or (done.problems and not done.done):
        raise typer.Exit(ExitStatus.FAULT)


def _feeds(named: list[str] | None) -> tuple[Feed, ...]:
    from termarena.core.errors import NotFound
    from termarena.forge.retrieving.server import DEFAULT_FEEDS, FEEDS

    unknown = [name for name in named or () if name not in FEEDS]
    if unknown:
        raise NotFound(f"no list is called {unknown[0]}", known=tuple(FEEDS))
    return tuple(feed for feed in FEEDS if feed in named) if named else DEFAULT_FEEDS


def _from_here(path: Path, forge: Path, licence: str | None) -> Retrieved:
    from termarena.forge.ledger import Ledger
    from termarena.forge.retrieving import RECORDINGS
    from termarena.forge.retrieving.local import retrieve_from_here

    with Ledger(forge) as ledger, progress("recordings") as bar:

        def on_step(done: Retrieved, total: int) -> None:
            bar.move_to(done.done, total)

        return retrieve_from_here(path, forge / RECORDINGS, licence, ledger, on_step)


def _from_server(plan: ServerPlan, forge: Path, *, pause_s: float, networks: list[str]) -> Retrieved:
    from urllib.parse import urlsplit

    from termarena.core.addresses import AddressPolicy
    from termarena.forge.ledger import Ledger
    from termarena.forge.retrieving import RECORDINGS, retrieve_from_server
    from termarena.forge.retrieving.visiting import Manners, open_visitor, origin_of

    # This machine is asked only if it was named; a server out there cannot send us to it.
    host = urlsplit(origin_of(plan.address)).hostname or ""
    policy = AddressPolicy.of(networks, allows_loopback=host in ("localhost", "::1") or host.startswith("127."))
    with (
        Ledger(forge) as ledger,
        open_visitor(policy, Manners(pause_s=pause_s)) as visitor,
        progress("recordings") as bar,
    ):

        def on_step(done: Retrieved, total: int) -> None:
            bar.move_to(done.done, total or None)

        return retrieve_from_server(plan, forge / RECORDINGS, visitor, ledger, on_step)


def _show(done: Retrieved, forge: Path, *, json: bool) -> None:
    from dataclasses import asdict

    from termarena.forge.retrieving import RECORDINGS

    for problem in done.problems[:SHOWN_PROBLEMS]:
        say(f"warning: {problem}")
    if len(done.problems) > SHOWN_PROBLEMS:
        say(f"warning: and {len(done.problems) - SHOWN_PROBLEMS} more; see them all with --json")
    for address in done.withdrawn:
        say(f"gone at its source: {address}; remove what was made of it: termarena forge takedown {address}")
    if json:
        print_json(asdict(done))
        return
    told = ("fetched", "known", "missing", "refused", "gone", "blocked", "failed")
    counts = [f"{getattr(done, name)} {name}" for name in told if getattr(done, name)]
    print_line(f"{done.folder}: {', '.join(counts) or 'no recording'}")
    if done.fetched or done.known:
        say(f"next: termarena forge run {forge / RECORDINGS} --forge {forge}")
