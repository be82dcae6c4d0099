"""`termarena broker`: the model broker by itself, for programs outside a run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_line, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.broker import Exchanged
    from termarena.models import ModelLimits

__all__ = ["app"]

AT_ONCE = 4096
"""Requests; whoever starts a broker of his own knows his programs."""

app = command_app()


@app.command()
def broker(
    *,
    model: Annotated[str, typer.Option("--model", "-m", metavar="PROVIDER:MODEL", help="Which model answers.")],
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="On 127.0.0.1; 0: a free one.")
    ] = 0,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", metavar="USD", min=0, help="Money for all requests together.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option("--budget-tokens", metavar="N", min=0, help="The same in tokens.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Keep every exchange, one JSON per line.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Serve one model on loopback, in every interface, until Ctrl-C.

    \b
    termarena broker --model anthropic:claude-haiku-4-5 --budget-usd 1 --record exchanges.jsonl
    termarena broker --model ollama:qwen3 --port 4000

    The first line printed is the address and the key to use with it; the real key stays here.
    """
    import asyncio

    from termarena.models import ModelLimits

    limits = ModelLimits(trial_usd=budget_usd, trial_tokens=budget_tokens)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(model, limits, port=port, record=record, json=json))


async def _serve(word: str, limits: ModelLimits, *, port: int, record: Path | None, json: bool) -> None:
    import asyncio

    from termarena.broker import Broker
    from termarena.core.errors import UsageError
    from termarena.models import RunModels

    keep = _keeper(record)
    models = RunModels(limits)
    await models.probe(word)
    try:
        async with Broker(models, port=port) as serving:
            seat = serving.seat(word, keep, at_once=AT_ONCE)
            url = f"http://{serving.address}"
            if json:
                print_json({"url": url, "key": seat.token, "model": word})
            else:
                print_line(f"{url} {seat.token}")
            say("OpenAI: URL/v1, Anthropic and Google: URL; Ctrl-C ends it")
            await asyncio.Event().wait()
    except OSError as error:
        raise UsageError(f"cannot listen on port {port}: {error.strerror}", hint="name another --port") from error
    finally:
        await models.aclose()


def _keeper(path: Path | None) -> Callable[[Exchanged], None]:
    """Appends exchanges to a file, secrets replaced. Raises `UsageError` for one that cannot be written."""
    import json
    import os

    from termarena.core.errors import UsageError
    from termarena.core.scrub import Scrubber

    try:
        if path is not None:
            path.open("a").close()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="name another file with --record") from error
    scrubber = Scrubber.from_environment(os.environ)

    def keep(exchange: Exchanged) -> None:
        if path is None:
            return
        row = {
            "url": exchange.path,
            "request": exchange.request,
            "status": exchange.status,
            "response": exchange.response,
            "duration_s": round(exchange.duration_s, 6),
            "stripped": list(exchange.stripped),
            "problem": exchange.problem,
        }
        with path.open("a", encoding="utf-8") as file:
            file.write(scrubber.scrub(json.dumps(row)) + "\n")

    return keep
