"""The build: whether the image will be the same next year, on another machine, and without the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from termarena.core.errors import TaskFormatError
from termarena.tasks.lint.rule import Rule
from termarena.tasks.yaml_documents import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.lint.rule import Severity
    from termarena.tasks.lint.view import Recipe, View
    from termarena.tasks.model import Finding

__all__ = ["RULES", "check"]

UNPINNED_IMAGE = Rule(
    "unpinned-image",
    "warning",
    "a base image without a tag, or with `latest`",
    "name a version, better a digest (image@sha256:…)",
)
NO_DIGEST = Rule(
    "image-without-digest", "info", "a base image named by a tag, which can move", "add the digest: image:tag@sha256:…"
)
PLATFORM_PIN = Rule(
    "platform-pin",
    "warning",
    "the image builds for one processor only",
    "drop --platform, or choose the download by $(uname -m) or TARGETARCH",
)
APT_WITHOUT_UPDATE = Rule(
    "apt-without-update",
    "warning",
    "apt-get install with no apt-get update before it",
    "run apt-get update in the same RUN",
)
UNPINNED_PACKAGES = Rule(
    "unpinned-packages",
    "info",
    "packages installed without a version",
    "pin the versions that the tests or the agent depend on",
)
NETWORK_AT_BUILD = Rule(
    "network-at-build",
    "info",
    "the image cannot be built offline",
    "publish a prebuilt image and name it in docker_image",
)
ADD_FROM_NETWORK = Rule(
    "add-from-network",
    "warning",
    "ADD fetches a file that nothing verifies",
    "use ADD --checksum=sha256:…, or ship the file",
)
SECRET_IN_IMAGE = Rule(
    "secret-in-image",
    "info",
    "a secret, by its name, is set in the image",
    "pass it at run time, or make plain that it is made up",
)
RULES = (
    UNPINNED_IMAGE,
    NO_DIGEST,
    PLATFORM_PIN,
    APT_WITHOUT_UPDATE,
    UNPINNED_PACKAGES,
    NETWORK_AT_BUILD,
    ADD_FROM_NETWORK,
    SECRET_IN_IMAGE,
)

_TAG = re.compile(r":([\w][\w.-]*)$")
_SECRET = re.compile(r"(?:^|_)(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PRIVATE_KEY|CREDENTIALS?|ACCESS_KEY)(?:_|$)")
_REAL_SECRET = re.compile(
    r"sk-[A-Za-z0-9_-]{20}|gh[pousr]_[A-Za-z0-9]{30}|AKIA[A-Z0-9]{16}|xox[bap]-[0-9]|-----BEGIN [A-Z ]{0,20}PRIVATE KEY"
)
_OPTIONS = r"[ \t]+(?:-[\w=:/.-]+[ \t]+)*"
_APT_INSTALL = re.compile(rf"\bapt(?:-get)?{_OPTIONS}install\b")
_APT_UPDATE = re.compile(rf"\bapt(?:-get)?{_OPTIONS}update\b")
_PIP = re.compile(rf"\bpip3?{_OPTIONS}install\b([^;&|\n]*)")
_PINNED = re.compile(r"==|~=|@|\.whl|\.txt|\.toml|^[./$\"']")
_NETWORK = re.compile(
    r"\b(?:apt-get|apt|apk|yum|dnf|microdnf|pip3?|uv|npm|npx|yarn|pnpm|cargo|gem|conda|mamba|go)"
    rf"{_OPTIONS}(?:install|update|add|sync|i|get|create|ci)\b"
    r"|\b(?:curl|wget)\b[^;&|\n]{0,300}://|\bgit[ \t]+clone\b[^;&|\n]{0,300}(?:://|@)"
)
_MACHINE = re.compile(r"\b(?:x86_64|x86-64|amd64|aarch64|arm64)\b")
_CHOOSES_MACHINE = ("uname -m", "TARGETARCH", "print-architecture", "BUILDPLATFORM", "TARGETPLATFORM", "$(arch")


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    for recipe in view.recipes:
        yield from _images(recipe)
        yield from _runs(recipe)
        yield from _values(recipe)
    yield from _compose(view)
    if view.task.environment.image is not None:
        yield from _image(view.task.environment.image, view.document, None)


def _images(recipe: Recipe) -> Iterator[Finding]:
    names = {stage.name for stage in recipe.parsed.stages}
    for stage in recipe.parsed.stages:
        line = stage.instruction.line
        platform = stage.instruction.flags.get("platform", "$")
        if not platform.startswith("$"):
            yield PLATFORM_PIN.found(recipe.source.name, f"the base image is pinned to {platform[:60]}", line=line)
        if stage.image.lower() not in names:
            yield from _image(stage.image, recipe.source.name, line)


def _image(image: str, file: str, line: int | None) -> Iterator[Finding]:
    if image == "scratch" or "$" in image or "@sha256:" in image or not image:
        return
    tag = _TAG.search(image.rpartition("/")[2])
    if tag is None or tag[1] == "latest":
        yield UNPINNED_IMAGE.found(file, f"{image[:120]} has no version, so every build may differ", line=line)
    else:
        yield NO_DIGEST.found(file, f"{image[:120]} is named by its tag alone", line=line)


def _runs(recipe: Recipe) -> Iterator[Finding]:
    file = recipe.source.name
    scripts = [(one, one.script()) for stage in recipe.parsed.stages for one in stage.instructions if one.name == "RUN"]
    loose = next((one for one, script in scripts if _is_loose(script)), None)
    if loose:
        yield UNPINNED_PACKAGES.found(file, "packages are installed without versions", line=loose.line)
    online = next((one for one, script in scripts if _NETWORK.search(script)), None)
    if online:
        yield NETWORK_AT_BUILD.found(file, "building this image needs the network", line=online.line)
    if not any(word in recipe.source.text for word in _CHOOSES_MACHINE):
        for one, script in scripts:
            if "://" in script and (machine := _MACHINE.search(script)):
                yield PLATFORM_PIN.found(file, f"a download for {machine[0]} only", line=one.line, severity="info")
    yield from _package_lists(recipe)


def _package_lists(recipe: Recipe) -> Iterator[Finding]:
    """An install before any update, in a stage and in those below it."""
    updated: dict[str | None, bool] = {}
    for stage in recipe.parsed.stages:
        fresh = updated.get(stage.image.lower(), False)
        for one in stage.instructions:
            script = one.script() if one.name == "RUN" and not fresh else ""
            if "apt" not in script:
                continue
            fresh = _APT_UPDATE.search(script) is not None
            if not fresh and _APT_INSTALL.search(script) and "mount" not in one.flags:
                message = "apt-get install has no package lists to read: nothing above runs apt-get update"
                yield APT_WITHOUT_UPDATE.found(recipe.source.name, message, line=one.line)
        updated[stage.name] = fresh


def _is_loose(script: str) -> bool:
    for match in _PIP.finditer(script):
        packages = [word for word in match[1].split() if not word.startswith("-")]
        if any(not _PINNED.search(word) for word in packages):
            return True
    return _APT_INSTALL.search(script) is not None and "=" not in script


def _values(recipe: Recipe) -> Iterator[Finding]:
    for instruction in recipe.parsed.instructions:
        if instruction.name in ("ENV", "ARG"):
            for name, value in instruction.assignments().items():
                if value and "$" not in value and _SECRET.search(name.upper()):
                    severity: Severity | None = "warning" if _REAL_SECRET.match(value) else None
                    message = f"{name} is set in the image, where the agent can read it"
                    yield SECRET_IN_IMAGE.found(recipe.source.name, message, line=instruction.line, severity=severity)
        elif instruction.name == "ADD" and "checksum" not in instruction.flags:
            words = instruction.words()[:-1]
            if any(word.startswith(("http://", "https://", "ftp://")) for word in words):
                yield ADD_FROM_NETWORK.found(
                    recipe.source.name, "ADD fetches a file without a checksum", line=instruction.line
                )


def _compose(view: View) -> Iterator[Finding]:
    name = view.task.environment.compose
    source = next((one for one in view.environment if one.file.path == name), None) if name else None
    if source is None:
        return
    try:
        document = parse_yaml(source.text, file=source.name)
    except TaskFormatError:
        return
    services = document.get("services") if isinstance(document, dict) else None
    for service in services.values() if isinstance(services, dict) else ():
        image = service.get("image") if isinstance(service, dict) and "build" not in service else None
        if isinstance(image, str):
            place = source.text.find(image)
            yield from _image(image, source.name, source.line_of(place) if place >= 0 else None)
