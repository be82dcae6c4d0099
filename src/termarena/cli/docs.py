"""`termarena docs`: the documentation, served from what is installed."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_line, say

__all__ = ["app"]

app = command_app()


@app.command()
def docs(
    *,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0 is any free one.")] = 8643,
    public: Annotated[bool, typer.Option("--public", help="Allow an address that others can reach.")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Start no browser.")] = False,
    json: JsonOption = False,
) -> None:
    """Serve this documentation on your own machine.

    \b
    termarena docs                    # on http://127.0.0.1:8643, and in your browser where there is one
    termarena docs --port 0 --no-open

    Everything comes from the installation, nothing from another host. In a clone the pages are built first, where they
    are older than what they are made from. Ctrl-C stops it.
    """
    from termarena.cli.site import current_site, site_server
    from termarena.core.errors import UsageError
    from termarena.core.hosts import is_loopback

    if not is_loopback(host) and not public:
        raise UsageError(f"{host} can be reached from other machines", hint="say so with --public")
    folder = current_site(on_build=lambda: say("building the pages, which takes a minute …"))
    with site_server(folder, host=host, port=port) as server:
        print_json({"url": server.url}, is_line=True) if json else print_line(server.url)
        say("serving; Ctrl-C stops it")
        if not no_open and not json and _has_browser():
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # how it is ended
            return


def _has_browser() -> bool:
    """Whether a browser would have a screen: one in this terminal would take it over."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
