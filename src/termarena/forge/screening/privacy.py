"""Secrets and personal data: found as spans, replaced by the same placeholder wherever they stand."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from termarena.core.errors import MissingExtra
from termarena.core.scrub import Scrubber
from termarena.forge.screening.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from termarena.forge.transcript import Transcript

__all__ = ["Private", "Redactor", "find_private"]

SECRET: Final = "secret"  # noqa: S105 - the name of a kind
PLACEHOLDERS: Final = {
    "email": "person{}@example.org",
    "address": "192.0.2.{}",
    "phone": "+1-555-01{:02}",
    "user": "user{}",
    "host": "host{}",
    SECRET: "REDACTED{}",
}
SHORTEST_SECRET: Final = 4
_VALUE: Final = r"""(?:"([^"\n]{4,200})"|'([^'\n]{4,200})'|([^\s"'`;|&<>()$]{4,200}))"""
_ASSIGNED: Final = re.compile(
    r"(?i)(?:password|passwd|passphrase|secret|api_?key|access_?key|auth_?token|access_?token|_token|_pat)"
    rf"[\w]*[\"']?\s*(?:=|:=|:\s|=>)\s*{_VALUE}"
)
_OPTION: Final = re.compile(rf"(?i)(?<!\S)--?(?:password|passwd|passphrase|token|api-key|secret)(?:=|\s+){_VALUE}")
# `-p` is a password only for the programs that take one there: attached for mysql, the next word for sshpass.
_SHORT_OPTION: Final = re.compile(
    r"(?m)(?:\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;&]*?\s-p(?=\S)|\bsshpass\s+-p\s*)"
    rf"{_VALUE}"
)
_BASIC: Final = re.compile(
    r"(?:\bcurl\b[^\n|;&]*?\s(?:-u|--user)[ =]?['\"]?[\w.@-]+|://[\w.%-]+):([^\s@/'\"]{3,200})(?=@|['\"\s])"
)
_EMAIL: Final = re.compile(
    r"(?<![\w.+/:-])[A-Za-z0-9][\w.+-]{0,63}@(?>(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24})(?![\w:/-]|\.\w)"
)
_NO_PERSON: Final = re.compile(
    r"(?i)^(?:git|hg|svn|noreply|no-reply|root|user|users|admin|info|support|me|you|test|nobody)@|@(?:[\w.-]*\.)?(?:example\.(?:com|org|net|edu)|users\.noreply\.github\.com|localhost|test|invalid)$|\.(?:local|service|socket|png|jpg|git)$"
)
_IPV4: Final = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-]*\d|\.\w)")
_VERSION_BEFORE: Final = re.compile(r"(?i)(?:version|release|v|ver|ubuntu|deb|kernel|>=|==|~=|@)[\s:=/-]*$")
_PHONE: Final = re.compile(
    r"(?<![\w+.-])\+[1-9]\d{0,2}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{2,4}(?:[ .-]\d{2,4}){2,4}(?![\w.,-]*\d)"
)
_HOME_OWNER: Final = re.compile(r"(?<![\w.])/(?:home|Users)/([A-Za-z][\w.-]{1,31})(?![\w.-])")
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY-----[\s\S]{0,16384}?(?:-----END [A-Z0-9 ]{0,24}PRIVATE KEY-----|\Z)"
)
_NO_NAMES: Final = words(
    "root user users admin ubuntu debian fedora vagrant pi ec2-user centos runner docker node app test demo guest"
    " me dev developer sandbox localhost host server linuxbrew shared public git postgres www-data jovyan vscode"
    " coder work"
)
# Kinds of detect-secrets whose patterns are words of any session, or are asked for above in a stricter form.
_LOOSE_KEYS: Final = frozenset(
    {"Public IP (ipv4)", "Secret Keyword", "Basic Auth Credentials", "IBM Cloud IAM Key", "IBM COS HMAC Credentials"}
)
_NO_SECRETS: Final = re.compile(
    r"(?i)^(?:\*+|x+|\.+|<.*>|\[.*\]?|\{.*\}?|\$.*|%.*|your.*|my.?(?:password|secret|token|key)|changeme|password|passwd|secret|token|example.*"
    r"|none|null|true|false|yes|no|string|required|optional|default|text|str|env|file|stdin|redacted\d*|.{0,3}|\d{1,5})$"
)


@dataclass(frozen=True, slots=True)
class Private:
    """A value that must not be passed on, and what kind of thing it is."""

    kind: str
    value: str
    name: str = ""
    """Which rule found it."""


def find_private(transcript: Transcript) -> list[Private]:
    """Everything private in a transcript, longest first, each value once. Raises `MissingExtra`."""
    text = "\n".join(_texts(transcript))
    found = {private.value: private for private in _names(transcript, text)}
    found |= {private.value: private for private in (*_people(text), *_secrets(text))}
    return sorted(found.values(), key=lambda private: (-len(private.value), private.value))


def _texts(transcript: Transcript) -> Iterator[str]:
    yield transcript.title
    yield transcript.text
    for command in transcript.commands:
        yield command.text
        yield command.cwd or ""
        if command.output not in transcript.text:
            yield command.output


def _secrets(text: str) -> Iterator[Private]:
    raw = text.encode("utf-8", "surrogatepass")
    for span in Scrubber().find(raw):
        yield Private(SECRET, raw[span.start : span.end].decode("utf-8", "replace"), span.name)
    for name, pattern in (
        ("assignment", _ASSIGNED),
        ("option", _OPTION),
        ("password", _SHORT_OPTION),
        ("login", _BASIC),
    ):
        for found in pattern.finditer(text):
            value = next((group for group in found.groups() if group), "")
            if len(value) >= SHORTEST_SECRET and not _NO_SECRETS.match(value):
                yield Private(SECRET, value, name)
    for found in _PEM.finditer(text):
        yield Private(SECRET, found[0], "private-key")
    for name, pattern in _known_keys():
        for found in pattern.finditer(text):
            value = next((group for group in reversed(found.groups()) if group), found[0])
            if not _NO_SECRETS.match(value):
                yield Private(SECRET, value, name)


@cache
def _known_keys() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The shapes of keys that detect-secrets knows; those that match too much in terminals are left out."""
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("detect-secrets", extra="forge", purpose="screening recordings") from error
    found = []
    plugins: dict[str, type] = get_mapping_from_secret_type_to_class()
    for name, plugin in sorted(plugins.items(), key=lambda pair: pair[0]):
        if name not in _LOOSE_KEYS:
            found += [(name, pattern) for pattern in getattr(plugin, "denylist", ())]
    return tuple(found)


def _people(text: str) -> Iterator[Private]:
    for found in _EMAIL.finditer(text):
        if not _NO_PERSON.search(found[0]):
            yield Private("email", found[0], "email")
    for found in _IPV4.finditer(text):
        if _is_public(found[0]) and not _VERSION_BEFORE.search(text[max(0, found.start() - 16) : found.start()]):
            yield Private("address", found[0], "public address")
    for found in _PHONE.finditer(text):
        yield Private("phone", found[0], "phone")


def _is_public(value: str) -> bool:
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        return False
    is_known = value in ("8.8.8.8", "8.8.4.4", "1.1.1.1", "9.9.9.9")
    return address.is_global and not is_known and not address.is_multicast and int(address) >> 24 > 1


def _names(transcript: Transcript, text: str) -> Iterator[Private]:
    owners = Counter(found[1] for found in _HOME_OWNER.finditer(text))
    if transcript.facts.user:
        owners[transcript.facts.user] += 1
    for owner in owners:
        if owner.lower() not in _NO_NAMES and len(owner) > 2:  # noqa: PLR2004 - two letters stand in every text
            yield Private("user", owner, "home folder or prompt")
    host = transcript.facts.host
    if host and host.lower() not in _NO_NAMES and len(host) > 2 and not host.isdigit():  # noqa: PLR2004 - as above
        yield Private("host", host, "prompt")


class Redactor:
    """Replaces private values, each by one placeholder of its kind, in any text."""

    def __init__(self, privates: Iterable[Private]) -> None:
        """Placeholders are numbered in the order given."""
        self._numbers: Counter[str] = Counter()
        self.placeholders: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.times: Counter[str] = Counter()
        for private in privates:
            self._numbers[private.kind] += 1
            self.placeholders[private.value] = PLACEHOLDERS[private.kind].format(self._numbers[private.kind])
            self.kinds[private.value] = private.kind
        self._pattern = self._compile()

    def _compile(self) -> re.Pattern[str] | None:
        if not self.placeholders:
            return None
        parts = []
        for value in sorted(self.placeholders, key=len, reverse=True):
            escaped = re.escape(value)
            if self.kinds[value] in ("user", "host"):
                # A host may be called like any word; then only the form user@host tells that it is meant.
                is_word = self.kinds[value] == "host" and value.isalpha()
                escaped = rf"{'(?<=@)' if is_word else '(?<![A-Za-z0-9_])'}{escaped}(?![A-Za-z0-9_])"
            parts.append(escaped)
        return re.compile("|".join(parts))

    def clean(self, text: str) -> str:
        """The text without private values."""
        return self._pattern.sub(self._replace, text) if self._pattern is not None else text

    def _replace(self, found: re.Match[str]) -> str:
        self.times[found[0]] += 1
        return self.placeholders[found[0]]
