"""Who may do what: keys in requests.

Writing takes a key in the `Authorization: Bearer` header, which no browser adds by itself: no page of another site can
write in someone's name.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from starlette.requests import HTTPConnection

from termarena.arena.held import Held, HeldNow
from termarena.arena.keys import Holder, Scope, holder_of
from termarena.core.errors import Refused

__all__ = ["Submitter", "holder_of_token", "may_read"]

_BEARER = HTTPBearer(auto_error=False, description="A key, as `termarena serve keys add` shows it.")
KEY_HINT = "make one with: termarena serve keys add NAME"


def may_read(request: HTTPConnection, held: HeldNow) -> None:
    """Raises Refused where the server is private and no key comes with the request, as a bearer or as a password."""
    if held.config.is_private:
        _holder(request, held, "read", schemes=("bearer", "basic"))


def _needs(scope: Scope) -> Callable[..., Holder]:
    def holder(request: HTTPConnection, held: HeldNow, _told: Annotated[object, Depends(_BEARER)]) -> Holder:
        return _holder(request, held, scope, schemes=("bearer",))

    return holder


Submitter = Annotated[Holder, Depends(_needs("submit"))]


def _holder(request: HTTPConnection, held: Held, scope: Scope, *, schemes: tuple[str, ...]) -> Holder:
    scheme, given = get_authorization_scheme_param(request.headers.get("authorization"))
    if scheme.lower() not in schemes:
        raise Refused("this needs a key", status=401, hint=KEY_HINT)
    token = given if scheme.lower() == "bearer" else _password(given)
    return holder_of_token(request, held, token, scope)


def holder_of_token(request: HTTPConnection, held: Held, token: str, scope: Scope) -> Holder:
    """Who comes with this key. Raises Refused for one that is none, or may not."""
    with held.database.reading() as session:
        holder = holder_of(session, token)
    if holder is None:
        address = request.client.host if request.client else ""
        status = 429 if held.bad_keys.take(address) else 401
        raise Refused("this is no valid key", status=status, hint=KEY_HINT)
    if not holder.may(scope):
        raise Refused(f"the key {holder.name} may not {scope}", status=403, hint=f"{KEY_HINT} --scope {scope}")
    return holder


def _password(given: str) -> str:
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
