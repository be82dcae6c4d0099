"""The namespace probe, run as a program of its own: it must be single-threaded, and whatever it mounts ends with it.

Prints one JSON object: each step with null where it worked, or with what went wrong; a step that could not be tried is
absent. Standard library only, because it runs as `python -I -S`.
"""

import ctypes
import errno
import json
import os
import sys

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x4000, 0x40000, 2, 4, 8
# Any folder does: the mount over it is seen by nobody but this process.
SCRATCH = "/tmp"  # noqa: S108 - never written to: hidden by a tmpfs first

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    """Raise what the C library left in errno."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {errno.errorcode.get(code, code)} ({os.strerror(code)})")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    texts = (source.encode(), target.encode(), kind.encode())
    checked(libc.mount(*texts, ctypes.c_ulong(flags), options.encode()), f"mount {kind or 'private'}")


def write(path: str, text: str) -> None:
    """Write a small file in one call, as the kernel's control files ask for."""
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib would be this program's largest import
        file.write(text)


def user_namespace() -> None:
    """A namespace in which we are root, and in which mounting is ours to do."""
    user, group = os.getuid(), os.getgid()
    checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID), "unshare")
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"0 {user} 1")
    write("/proc/self/gid_map", f"0 {group} 1")
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m")


def overlay() -> None:
    """An overlay whose upper layer is a tmpfs, in which a folder of the lower layer can be replaced by an empty one.

    The replacement is what needs extended attributes: without them the mount works and the `mkdir` fails.
    """
    for name in ("lower/folder", "upper", "work", "merged"):
        os.makedirs(f"{SCRATCH}/{name}")  # noqa: PTH103 - as above
    write(f"{SCRATCH}/lower/folder/file", "below")
    layers = f"lowerdir={SCRATCH}/lower,upperdir={SCRATCH}/upper,workdir={SCRATCH}/work,userxattr"
    mount("overlay", f"{SCRATCH}/merged", "overlay", 0, layers)
    os.unlink(f"{SCRATCH}/merged/folder/file")  # noqa: PTH108 - as above
    os.rmdir(f"{SCRATCH}/merged/folder")  # noqa: PTH106 - as above
    os.mkdir(f"{SCRATCH}/merged/folder")  # noqa: PTH102 - as above
    if os.listdir(f"{SCRATCH}/merged/folder"):  # noqa: PTH208 - as above
        raise OSError(errno.EIO, "overlay: a deleted file came back")


def proc() -> None:
    """A /proc of our own process numbers; the new pid namespace begins with the next child."""
    child = os.fork()
    if child == 0:
        try:
            mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, f"mount proc: {errno.errorcode.get(code, code)} ({os.strerror(code)})")


def main() -> None:
    """Try the steps in the order in which a sandbox needs them; without the first there is no second."""
    answers: dict[str, str | None] = {}
    for step in (user_namespace, overlay, proc):
        try:
            step()
            answers[step.__name__] = None
        except OSError as error:
            answers[step.__name__] = str(error.strerror or error)
            if step is user_namespace:
                break
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
