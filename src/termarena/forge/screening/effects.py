"""Which commands change something, as far as their names and words tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.forge.screening.words import words

if TYPE_CHECKING:
    from termarena.forge.screening.shell import Call

__all__ = ["changes_state", "is_pager"]

# Programs that only look: what is not here, and not decided below, is taken to change something.
_LOOKING: Final = words("""
    ls cat head tail less more grep egrep fgrep rg ag find wc sort uniq cut tr awk gawk mawk sed echo printf pwd
    cd which whereis type file stat du df ps top htop free uptime uname whoami id groups hostname date cal env
    printenv history man info help true false test [ [[ diff cmp comm md5sum sha1sum sha256sum sha512sum tree
    column nl tac rev fold paste join seq yes sleep clear reset exit logout jobs fg bg wait alias tput stty tty
    lsof netstat ss ip ifconfig ping dig nslookup host traceroute lsblk lscpu lsusb lspci dmesg journalctl
    readlink realpath basename dirname xxd od hexdump strings nm objdump ldd jq bat batcat exa eza fzf bc expr
    time watch neofetch screenfetch figlet cowsay lolcat apropos finger w who last :
""")
_GIT_LOOKING: Final = words("""
    status log diff show blame shortlog describe rev-parse ls-files ls-tree cat-file grep reflog whatchanged help
    version name-rev for-each-ref count-objects
""")
_PAGERS: Final = words("less more most man info bat batcat git systemctl journalctl top htop watch help pydoc zless")
_EDITORS_IN_PLACE: Final = words("sed perl gawk yq")


def changes_state(call: Call) -> bool:
    """Whether the call leaves something behind: a file, a repository, a package, a service."""
    if any(target != "/dev/null" and not target.startswith("&") for target in call.writes):
        return True
    if not call.program or any(word in ("--help", "--version") for word in call.arguments):
        return False
    if call.program == "git":
        return next(iter(call.operands()), "") not in _GIT_LOOKING
    if call.program in _EDITORS_IN_PLACE:
        return any(word.startswith(("-i", "--in-place", "--inplace")) for word in call.arguments)
    if call.program == "find":
        return any(word in ("-delete", "-exec", "-execdir") for word in call.arguments)
    is_saving = any(word.startswith(("-o", "-O", "--output", "--remote-name")) for word in call.arguments)
    return is_saving if call.program in ("sort", "curl") else call.program not in _LOOKING


def is_pager(call: Call) -> bool:
    """Whether the program takes the screen only to show something; git also does so to let a message be written."""
    return call.program in _PAGERS and (call.program != "git" or not changes_state(call))
