"""Secrets and personal data in what a recording shows."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from termarena.core.errors import MissingExtra
from termarena.core.scrub import Scrubber
from termarena.shell.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from termarena.forge.transcript import Transcript

__all__ = ["SECRET", "Private", "find_private"]

SECRET: Final = "secret"  # noqa: S105 - the name of a kind
SHORTEST_SECRET: Final = 4
LONGEST_LOCAL_PART: Final = 65
SHORTEST_NAME: Final = 3
_VALUE: Final = r"""(?:"([^"\n]{4,200})"|'([^'\n]{4,200})'|([^\s"'`;|&<>()$]{4,200}))"""
# Each pattern is asked only of lines in which one of its words stands: a search for a word is a hundred times as fast.
_ASSIGNED: Final = (
    ("passw", "passphrase", "secret", "api_key", "apikey", "access_key", "accesskey", "_token", "authtoken", "_pat"),
    re.compile(
        r"(?i)(?:password|passwd|passphrase|secret(?!_?name)|api_?key|access_?key|auth_?token|access_?token|_token|_pat)"
        rf"[\w]*[\"']?\s*(?:=|:=|:\s|=>)\s*{_VALUE}"
    ),
)
_OPTION: Final = (
    ("-passw", "-passphrase", "-token", "-api-key", "-secret"),
    re.compile(rf"(?i)(?<!\S)--?(?:password|passwd|passphrase|token|api-key|secret)(?:=|\s+){_VALUE}"),
)
# Names that are words of any text as well: as an assignment without spaces, or before a colon.
_BARE: Final = (
    ("token", "pass", "_pwd"),
    re.compile(
        rf"(?i)(?:(?<![\w-])(?:token|pass)|_(?:pwd|pass))[\"']?:?={_VALUE}"
        rf"|(?<!unexpected )(?<![\w-])token[\"']?:[ \t]+{_VALUE}"
    ),
)
# `-p` and its like are passwords only for the programs that take one there: attached for mysql, the next word for zip.
_SHORT_OPTION: Final = (
    ("mysql", "mariadb", "sshpass", "zip ", "7z", "openssl", "htpasswd", "chpasswd", ".password"),
    re.compile(
        r"(?:\b(?:mysql|mysqldump|mysqladmin|mariadb|7za?)\b[^\n|;&]*?\s-p(?=\S)|\bsshpass\s+-p\s*"
        r"|\b(?:un)?zip\b[^\n|;&]*?\s-P[ \t]*"
        r"|\bopenssl\b[^\n|;&]*?\s(?:-pass(?:in|out)?[ \t]+['\"]?pass:|-k[ \t]+)"
        r"|\bhtpasswd[ \t]+-(?=\w*b)(?:(?=\w*n)\w+|\w+[ \t]+\S+)[ \t]+\S+[ \t]+"
        r"|\bgit[ \t]+config[ \t][^\n|;&]*?\.password[ \t]+"
        r"|(?<![\w.-])[\w.-]++:(?=[^\s|]+\s*\|\s*(?:sudo\s+)?chpasswd))"
        rf"{_VALUE}"
    ),
)
_BASIC: Final = (
    ("://", "curl"),
    re.compile(
        r"(?:\bcurl\b[^\n|;&]*?\s(?:-u|--user)[ =]?['\"]?[\w.@-]+|://[\w.%-]+):([^\s@/'\"]{3,200})(?=@|['\"\s])"
    ),
)
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9+_=-]{16,}")
_DOMAIN: Final = re.compile(r"@(?>(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24})(?![\w:/-]|\.\w)")
_LOCAL_PART: Final = re.compile(r"(?<![\w.+/:-])[A-Za-z0-9][\w.+-]{0,63}$")
_NO_PERSON: Final = re.compile(
    r"(?i)^(?:git|hg|svn|noreply|no-reply|root|user|users|admin|info|support|me|you|test|nobody)@"
    r"|@(?:[\w.-]*\.)?(?:example\.(?:com|org|net|edu)|users\.noreply\.github\.com|localhost|test|invalid)$"
    r"|\.(?:local|service|socket|png|jpg|git)$"
)
# Both begin with the sign that is rare, and look back from there.
_LAST_OCTETS: Final = re.compile(r"\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w.-]*\d|\.\w)")
_FIRST_OCTET: Final = re.compile(r"(?<![\w.-])\d{1,3}$")
_VERSION_BEFORE: Final = re.compile(r"(?i)(?:version|release|v|ver|ubuntu|deb|kernel|>=|==|~=|@)[\s:=/-]*$")
_PHONE: Final = re.compile(
    r"\+(?<![\w+.-]\+)[1-9]\d{0,2}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{2,4}(?:[ .-]\d{2,4}){2,4}(?![\w.,-]*\d)"
)
_HOME_OWNER: Final = re.compile(r"/(?<![\w.]/)(?:home|Users)/([A-Za-z][\w.-]{1,31})(?![\w.-])")
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY-----[\s\S]{0,16384}?(?:-----END [A-Z0-9 ]{0,24}PRIVATE KEY-----|\Z)"
)
_PROMPT_NAMES: Final = re.compile(
    r"(?m)^[\[(]?([a-z_][\w.-]{0,31})@([\w.-]{1,63})(?=[\])]?[: ][^\n]{0,80}[$#%>](?: |$))"
)
_FILE_OWNERS: Final = re.compile(
    r"(?m)^[-dlbcps][-rwxsStT]{9}[.+@]? +\d+ +([A-Za-z][\w.-]{1,31}) +([A-Za-z][\w.-]{1,31}) "
)
_MADE_HERE: Final = re.compile(
    r"\b(?:useradd|adduser|groupadd|addgroup)\b[^\n|;&]{0,200}?"
    r"(?<![\w.-])([A-Za-z_][\w.-]{0,63})[ \t]{0,8}(?=$|[\n|;&])"
)
_SYSTEM_NAMES: Final = words(
    "daemon bin sys adm tty disk lp mail news uucp man proxy kmem dialout fax voice cdrom floppy tape sudo audio dip"
    " backup operator list irc src shadow utmp video sasl plugdev staff games nogroup nobody messagebus syslog sshd"
    " ssl-cert crontab input kvm render sgx netdev mysql redis nginx apache httpd http wheel everyone named postfix"
    " mongodb memcached rabbitmq elasticsearch jenkins tomcat ftp ntp chrony polkitd dbus avahi lxd libvirt"
)
"""Of accounts that systems and packages make."""
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
    r"(?i)^(?:\*+|x+|\.+|<.*>|\[.*\]?|\{.*\}?|\$.*|%.*|your.*|my.?(?:password|secret|token|key)|changeme|password|passwd"
    r"|secret|token|example.*"
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
    for found in _PEM.finditer(text):
        yield Private(SECRET, found[0], "private-key")
    lowered = text.lower()
    rules = {"assignment": _ASSIGNED, "bare": _BARE, "option": _OPTION, "password": _SHORT_OPTION, "login": _BASIC}
    for name, (markers, pattern) in rules.items():
        for found in pattern.finditer(_lines_with(text, lowered, markers)):
            value = next((group for group in found.groups() if group), "")
            if len(value) >= SHORTEST_SECRET and not _NO_SECRETS.match(value):
                yield Private(SECRET, value, name)
    yield from _keys(_lines_with(text, lowered, ("aws",)) + "\n" + _lines_with_long_words(text))


def _keys(text: str) -> Iterator[Private]:
    for name, pattern in _known_keys():
        for found in pattern.finditer(text):
            value = next((group for group in reversed(found.groups()) if group), found[0])
            if any(map(str.isdigit, value)) and not _NO_SECRETS.match(value):
                yield Private(SECRET, value, name)


def _lines_with(text: str, lowered: str, markers: Iterable[str]) -> str:
    """The lines of `text` in which one of the markers stands, each once."""
    found: dict[str, None] = {}
    same_length = len(text) == len(lowered)  # a few characters grow when they are made small
    source = text if same_length else lowered
    for marker in markers:
        at = lowered.find(marker)
        while at >= 0:
            end = lowered.find("\n", at)
            end = len(lowered) if end < 0 else end
            found[source[lowered.rfind("\n", 0, at) + 1 : end]] = None
            at = lowered.find(marker, end)
    return "\n".join(found)


def _lines_with_long_words(text: str) -> str:
    """Where a key can stand: lines with a long word of letters and digits."""
    found: dict[str, None] = {}
    done = 0
    for word in _LONG_WORD.finditer(text):
        if word.start() >= done and any(map(str.isdigit, word[0])):
            end = text.find("\n", word.end())
            done = len(text) if end < 0 else end
            found[text[text.rfind("\n", 0, word.start()) + 1 : done]] = None
    return "\n".join(found)


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
    for found in _DOMAIN.finditer(text):
        local = _LOCAL_PART.search(text, max(0, found.start() - LONGEST_LOCAL_PART), found.start())
        if local is not None and not _NO_PERSON.search(local[0] + found[0]):
            yield Private("email", local[0] + found[0], "email")
    for found in _LAST_OCTETS.finditer(text):
        first = _FIRST_OCTET.search(text, max(0, found.start() - 4), found.start())
        if first is None or _VERSION_BEFORE.search(text[max(0, first.start() - 16) : first.start()]):
            continue
        if _is_public(first[0] + found[0]):
            yield Private("address", first[0] + found[0], "public address")
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
    """Owners of files and of home folders, and the users and hosts of all prompts: a session may go through several."""
    prompts = [found.groups() for found in _PROMPT_NAMES.finditer(text) if found[1] not in ("git", "hg")]
    owners = {found[1] for found in _HOME_OWNER.finditer(text)} | {user for user, _ in prompts} | _owners(text)
    hosts = {host for _, host in prompts}
    facts = transcript.facts
    for kind, names in (("user", owners | {facts.user or ""}), ("host", hosts | {facts.host or ""})):
        for name in sorted(names):
            if len(name) >= SHORTEST_NAME and name.lower() not in _NO_NAMES and not name.isdigit():
                yield Private(kind, name, "home folder or prompt")


def _owners(text: str) -> set[str]:
    """Whom `ls -l` names: no account of the system's, and none that the session itself makes."""
    found = {name for owner in _FILE_OWNERS.finditer(text) for name in owner.groups()}
    made = {found[1] for found in _MADE_HERE.finditer(text)} if found else set()
    return {name for name in found - made if name.lower() not in _SYSTEM_NAMES and not name.startswith("systemd-")}
