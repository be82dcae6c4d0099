"""The OCI distribution protocol, as a pull needs it: manifests and blobs, with tokens, resumed and checked."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from termarena.core.errors import FetchError, ImageError, MissingExtra
from termarena.sandbox.images.config import digest_of, this_architecture
from termarena.sandbox.images.credentials import find_credentials
from termarena.sandbox.images.names import HUB, is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx

    from termarena.core.errors import Cause
    from termarena.sandbox.images.names import ImageName

__all__ = ["Descriptor", "Manifest", "Registry", "is_loopback", "open_registry"]

INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MANIFEST_LIMIT_BYTES: Final = 8 << 20
TRIES: Final = 5
PAUSE_S: Final = 0.5
TIMEOUT_S: Final = 60.0
CONNECT_TIMEOUT_S: Final = 15.0
CHUNK: Final = 1 << 20
_CHALLENGE: Final = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A blob that a manifest names."""

    digest: str
    size_bytes: int
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One image: its configuration and its layers, lowest first."""

    digest: str
    config: Descriptor
    layers: tuple[Descriptor, ...]


def is_loopback(host: str) -> bool:
    """Whether a registry is on this machine: there, as with Docker, plain HTTP is fine."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@contextmanager
def open_registry(host: str, *, base: str | None = None) -> Iterator[Registry]:
    """A registry by its host, or a mirror of it by its address `base`; raises `MissingExtra`."""
    try:
        import httpx  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise MissingExtra("httpx", extra="images", purpose="pulling images") from error
    timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    headers = {"Accept-Encoding": "identity", "User-Agent": "termarena"}
    with httpx.Client(
        timeout=timeout, follow_redirects=True, headers=headers, trust_env=not is_loopback(host)
    ) as client:
        yield Registry(client, host, base=base)


class Registry:
    """Requests to one registry; used from several threads."""

    def __init__(self, client: httpx.Client, host: str, *, base: str | None) -> None:
        """`base` is the address asked, if it is not the registry's own."""
        self._client = client
        self.host = host
        self._base = base.rstrip("/") if base else None
        self._authorization: dict[str, str] = {}

    # Manifests.

    def manifest(self, name: ImageName) -> Manifest:
        """The manifest for this machine's architecture. Raises `ImageError`, `FetchError`."""
        document, digest = self._document(name, name.reference)
        if "manifests" in document:
            chosen = _for_this_machine(document, str(name))
            document, digest = self._document(name, chosen)
        if document.get("schemaVersion") != 2 or "config" not in document:  # noqa: PLR2004 - the schema's number
            raise ImageError(str(name), "its manifest is of a form that has been given up", cause="task")
        try:
            return Manifest(digest, _descriptor(document["config"]), tuple(map(_descriptor, document["layers"])))
        except (KeyError, TypeError, ValueError) as error:
            raise ImageError(str(name), f"its manifest cannot be read: {error}") from error

    def _document(self, name: ImageName, reference: str) -> tuple[dict[str, Any], str]:
        accept = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
        with self._get(name, f"/manifests/{reference}", accept) as answer:
            body = _limited(answer, str(name))
        found = digest_of(body)
        if is_digest(reference) and found != reference:
            raise ImageError(str(name), f"the registry gave {found} for {reference}", cause="infra")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ImageError(str(name), f"its manifest is not JSON: {error}", cause="infra") from error
        if not isinstance(document, dict):
            raise ImageError(str(name), "its manifest is no table", cause="infra")
        return document, found

    # Blobs.

    def small_blob(self, name: ImageName, blob: Descriptor) -> bytes:
        """A blob that fits in memory, checked."""
        with self._get(name, f"/blobs/{blob.digest}", {}) as answer:
            body = _limited(answer, str(name))
        if digest_of(body) != blob.digest:
            raise ImageError(str(name), f"the blob {blob.digest} arrived damaged", cause="infra")
        return body

    def download(
        self, name: ImageName, blob: Descriptor, part: Path, *, on_bytes: Callable[[int], None] | None = None
    ) -> None:
        """Download into `part`, going on from what it holds, and check it; a broken connection is tried again.

        `on_bytes` gets what arrived, what was there already included. Raises `FetchError`, and `ImageError` for
        content that is not of its digest: then the part is removed.
        """
        state = hashlib.sha256()
        have = _digest_part(part, state, on_bytes)
        for left in reversed(range(TRIES)):
            try:
                have += self._rest(name, blob, part, state, have=have, on_bytes=on_bytes)
                break
            except FetchError:
                if not left:
                    raise
                time.sleep(PAUSE_S)
                have = part.stat().st_size if part.exists() else 0
        if f"sha256:{state.hexdigest()}" != blob.digest:
            part.unlink(missing_ok=True)
            raise ImageError(str(name), f"the layer {blob.digest} arrived damaged", hint="try again", cause="infra")

    def _rest(
        self,
        name: ImageName,
        blob: Descriptor,
        part: Path,
        state: Any,  # noqa: ANN401 - hashlib has no type of its own
        *,
        have: int,
        on_bytes: Callable[[int], None] | None,
    ) -> int:
        import httpx  # noqa: PLC0415 - an extra

        if have >= blob.size_bytes > 0:
            return 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        got = 0
        try:
            with self._get(name, f"/blobs/{blob.digest}", headers) as answer, part.open("ab") as out:
                skip = have if answer.status_code == HTTPStatus.OK else 0
                # As it comes: pieces of a fixed size would lose the last one of a connection that breaks.
                for block in answer.iter_raw():
                    data = block[skip:]
                    skip -= min(skip, len(block))
                    if have + got + len(data) > blob.size_bytes:
                        raise ImageError(str(name), f"the layer {blob.digest} is longer than announced", cause="infra")
                    out.write(data)
                    state.update(data)
                    got += len(data)
                    if on_bytes is not None and data:
                        on_bytes(len(data))
        except httpx.HTTPError as error:
            raise FetchError(str(name), f"{type(error).__name__}: {error}") from error
        if have + got < blob.size_bytes:
            raise FetchError(str(name), f"the layer {blob.digest} ended early")
        return got

    # Requests.

    @contextmanager
    def _get(self, name: ImageName, path: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        import httpx  # noqa: PLC0415 - an extra

        try:
            url = f"{self._address()}/v2/{name.repository}{path}"
            with self._client.stream("GET", url, headers=headers | self._authorization) as answer:
                if answer.status_code != HTTPStatus.UNAUTHORIZED:
                    _check(answer, name)
                    yield answer
                    return
                challenge = answer.headers.get("WWW-Authenticate", "")
            self._authorize(challenge, name)
            with self._client.stream("GET", url, headers=headers | self._authorization) as answer:
                _check(answer, name)
                yield answer
        except (httpx.TransportError, httpx.TooManyRedirects, httpx.InvalidURL) as error:
            hint = "check the network; without one, import an archive: termarena images import"
            raise FetchError(str(name), f"{type(error).__name__}: {error}", hint=hint) from error

    def _address(self) -> str:
        if self._base is None:
            self._base = self._find_address()
        return self._base

    def _find_address(self) -> str:
        if self.host == HUB:
            return f"https://registry-1.{HUB}"
        if not is_loopback(self.host):
            return f"https://{self.host}"
        import httpx  # noqa: PLC0415 - an extra

        # A plain server does not answer a TLS greeting at all; one with TLS answers a plain request with 400.
        try:
            answer = self._client.get(f"http://{self.host}/v2/")
        except httpx.TransportError:
            return f"https://{self.host}"
        return f"{'https' if answer.status_code == HTTPStatus.BAD_REQUEST else 'http'}://{self.host}"

    def _authorize(self, challenge: str, name: ImageName) -> None:
        """Answer a registry's challenge; raises `ImageError` when it cannot be answered."""
        scheme, _, rest = challenge.partition(" ")
        credentials = find_credentials(self.host)
        if scheme.lower() == "basic" and credentials is not None:
            import httpx  # noqa: PLC0415 - an extra

            basic = httpx.BasicAuth(credentials.user, credentials.password)
            request = next(basic.auth_flow(httpx.Request("GET", self._address())))
            self._authorization = {"Authorization": request.headers["Authorization"]}
            return
        told = dict(_CHALLENGE.findall(rest))
        realm = told.get("realm", "")
        if scheme.lower() != "bearer" or not realm:
            hint = "log in: docker login"
            raise ImageError(str(name), "the registry wants credentials, and there are none", hint=hint, cause="infra")
        self._authorization = {"Authorization": f"Bearer {self._token(realm, told, name)}"}

    def _token(self, realm: str, told: dict[str, str], name: ImageName) -> str:
        where = urlsplit(realm)
        if where.scheme != "https" and not (is_loopback(where.netloc) and is_loopback(self.host)):
            raise ImageError(str(name), f"its registry sends us for a token to {realm}, without TLS", cause="infra")
        credentials = find_credentials(self.host)
        query = {"scope": told.get("scope") or f"repository:{name.repository}:pull"}
        query |= {"service": told["service"]} if "service" in told else {}
        if credentials is not None and credentials.identity_token:
            form = {**query, "grant_type": "refresh_token", "refresh_token": credentials.identity_token}
            answer = self._client.post(realm, data={**form, "client_id": "termarena"})
        else:
            basic = (credentials.user, credentials.password) if credentials is not None else None
            answer = self._client.get(realm, params=query, auth=basic)
        if answer.status_code != HTTPStatus.OK:
            problem = f"no token was given: status {answer.status_code}"
            raise ImageError(str(name), problem, hint="check the name; log in: docker login", cause="infra")
        given = answer.json()
        token = given.get("token") or given.get("access_token") if isinstance(given, dict) else None
        if not isinstance(token, str) or "\n" in token:
            raise ImageError(str(name), "the answer for a token holds none", cause="infra")
        return token


def _check(answer: httpx.Response, name: ImageName) -> None:
    status = answer.status_code
    if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        return
    cause: Cause = "task" if status == HTTPStatus.NOT_FOUND else "infra"
    words: dict[int, str] = {
        HTTPStatus.NOT_FOUND: "is not in the registry",
        HTTPStatus.TOO_MANY_REQUESTS: "is refused for a while",
    }
    problem = words.get(status, f"the registry answers with status {status}")
    if status in _REFUSED:
        problem = "is not there, or not for you"
    hint = "check the name; for a private image, `docker login` first"
    raise ImageError(str(name), f"{problem} ({answer.url.host})", hint=hint, cause=cause)


def _limited(answer: httpx.Response, name: str) -> bytes:
    body = b""
    for block in answer.iter_raw(CHUNK):
        body += block
        if len(body) > MANIFEST_LIMIT_BYTES:
            raise ImageError(name, f"its manifest is longer than {MANIFEST_LIMIT_BYTES} bytes", cause="infra")
    return body


def _digest_part(part: Path, state: Any, on_bytes: Callable[[int], None] | None) -> int:  # noqa: ANN401 - as above
    """Digest what is there of an earlier try; how much that is."""
    part.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not part.exists():
        return 0
    have = 0
    with part.open("rb") as file:
        while data := file.read(CHUNK):
            state.update(data)
            have += len(data)
            if on_bytes is not None:
                on_bytes(len(data))
    return have


def _descriptor(told: dict[str, Any]) -> Descriptor:
    digest, size = str(told["digest"]), int(told["size"])
    if not is_digest(digest) or size < 0:
        raise ValueError(f"{digest!r} is no digest of SHA-256")
    if told.get("urls"):
        raise ValueError("a layer lies outside the registry")
    return Descriptor(digest, size, str(told.get("mediaType") or ""))


def _for_this_machine(index: dict[str, Any], name: str) -> str:
    """The digest of the manifest for this architecture; raises `ImageError` with those there are."""
    wanted = this_architecture()
    seen = []
    for entry in index["manifests"] if isinstance(index["manifests"], list) else ():
        platform = entry.get("platform") or {} if isinstance(entry, dict) else {}
        seen.append(f"{platform.get('os')}/{platform.get('architecture')}")
        if platform.get("os") == "linux" and platform.get("architecture") == wanted and is_digest(str(entry["digest"])):
            return str(entry["digest"])
    raise ImageError(name, f"there is none for linux/{wanted}; there is: {', '.join(seen[:20])}", cause="task")
