"""What a session needs that a sandbox without a network cannot give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from termarena.forge.hosts import REFS, is_private
from termarena.shell.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.forge.transcript import Transcript
    from termarena.shell.calls import Call

__all__ = ["Need", "needs_of_call", "needs_of_machine"]


class Need(NamedTuple):
    """Something that is needed; a `drop` cannot be had, a `note` makes replaying dear."""

    rule: str
    effect: Literal["drop", "note"]
    reason: str
    text: str
    url: str = ""
    """A public address, as it can be asked whether it is still there."""


_REMOTE: Final = words("ssh scp sftp mosh telnet rsync ftp lftp rclone")
_CLOUD: Final = words(
    "aws gcloud gsutil az doctl heroku flyctl fly vercel netlify kubectl oc helm terraform tofu pulumi eksctl"
    " kops argocd clusterctl ibmcloud linode-cli hcloud gh glab cf wrangler firebase databricks snowsql bq tkn"
    " istioctl vault"
)
_GUI: Final = words(
    "firefox chromium google-chrome chrome code subl gedit kate nautilus dolphin gimp inkscape vlc mpv xdg-open"
    " open eog evince okular libreoffice startx xterm gnome-terminal konsole virt-manager wireshark blender feh"
    " zathura"
)
_PROPRIETARY: Final = words(
    "matlab xcodebuild mathematica wolframscript sas stata vivado quartus vmrun simulink idea pycharm unity"
)
_MACOS: Final = words(
    "brew defaults osascript pbcopy pbpaste launchctl diskutil hdiutil xcode-select sw_vers softwareupdate mas port"
)
_WINDOWS: Final = words(
    "choco winget scoop wsl.exe cmd.exe powershell.exe pwsh.exe Get-ChildItem Set-Location Invoke-WebRequest"
)
_CONTAINERS: Final = words(
    "docker podman docker-compose nerdctl buildah minikube kind k3d k3s vagrant lxc multipass virsh"
)
_KERNEL: Final = words(
    "modprobe insmod rmmod sysctl mount umount losetup cryptsetup mdadm lvcreate vgcreate pvcreate iptables nft"
)
_SERVICES: Final = words("systemctl service initctl rc-service supervisorctl launchctl")
_GPU: Final = words("nvidia-smi nvcc rocm-smi")
_POWER: Final = words("reboot shutdown poweroff halt init")
PLACEHOLDER_NETWORK: Final = "192.0.2."
_LOCAL: Final = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0|sandbox")
_SSH_REPOSITORY: Final = re.compile(r"(?:ssh://)?[\w.-]+@([\w.-]+)[:/]")
_URL: Final = re.compile(r"(?:https?|ftp|git|ssh)://[^\s'\"<>|;)]+")

_KINDS: Final = (
    ("gui", _GUI, "drop", "it opens windows"),
    ("proprietary", _PROPRIETARY, "drop", "it needs software that is not free to install"),
    ("macos", _MACOS, "drop", "it needs macOS"),
    ("windows", _WINDOWS, "drop", "it needs Windows"),
    ("containers", _CONTAINERS, "note", "it runs containers or machines of its own"),
    ("kernel", _KERNEL, "note", "it changes the kernel or its devices"),
    ("services", _SERVICES, "note", "it manages services of an init system"),
    ("gpu", _GPU, "note", "it needs a graphics card"),
    ("power", _POWER, "drop", "it ends the machine"),
)


def needs_of_machine(transcript: Transcript) -> Iterator[Need]:
    """What the recording's machine was."""
    system, shell = transcript.facts.system, transcript.facts.shell
    if system == "windows" or shell in ("powershell", "pwsh", "cmd"):
        yield Need("windows", "drop", "it was made on Windows", f"{system or ''} {shell or ''}".strip())
    if system == "macos":
        yield Need("macos-machine", "note", "it was made on macOS; its tools may differ", "macos")


def needs_of_call(call: Call) -> Iterator[Need]:
    """What one call needs."""
    text = call.text[:200]
    for rule, programs, effect, reason in _KINDS:
        if call.program in programs:
            yield Need(rule, "drop" if effect == "drop" else "note", f"{reason} ({call.program})", text)
    if call.program in _CLOUD:
        yield Need("cloud", "drop", f"it needs an account or a cluster elsewhere ({call.program})", text)
    if call.program in _REMOTE and _reaches_out(call):
        yield Need("remote-host", "drop", f"it works on another host ({call.program})", text)
    if call.program == "git" and (host := _git_host(call)):
        yield Need("private-repository", "drop", f"it needs a key for {host}", text)
    yield from _addresses(call, text)


def _git_host(call: Call) -> str | None:
    """The host that git reaches over ssh, which asks for a key also where the repository is public."""
    for word in call.operands()[1:]:
        found = _SSH_REPOSITORY.match(word)
        if found and not _LOCAL.fullmatch(found[1]):
            return found[1]
    return None


def _reaches_out(call: Call) -> bool:
    """Whether a word names a host that is not this one; `rsync a b` and `ssh localhost` do not."""
    named = [word for word in call.operands() if not word.startswith("-")]
    if call.program in ("rsync", "scp"):
        named = [word.partition(":")[0] for word in named if re.match(r"[\w.@-]+:", word)]
    elif call.program == "rclone":
        named = [word for word in named if ":" in word]
    else:
        named = named[:1]
    hosts = [word.rpartition("@")[2].partition(":")[0] for word in named]
    return any(host and not _LOCAL.fullmatch(host) for host in hosts)


def _addresses(call: Call, text: str) -> Iterator[Need]:
    for found in _URL.finditer(" ".join((*call.words, *call.scripts))):
        try:
            host = urlsplit(found[0]).hostname or ""
        except ValueError:
            continue
        if not host or _LOCAL.fullmatch(host):
            continue
        if is_private(host) and not host.startswith(PLACEHOLDER_NETWORK):
            yield Need("private-address", "drop", f"it fetches from {host}, which is not public", text)
        else:
            asked = found[0].rstrip("/") + REFS if call.program == "git" else found[0]
            yield Need("network", "note", f"it fetches from {host}", text, asked)
