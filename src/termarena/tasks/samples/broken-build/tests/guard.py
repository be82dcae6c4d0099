"""Runs a program under test as an unprivileged user, out of reach of the hidden tests and of the reward file.

Where the sandbox cannot change users, the program runs as the current one.
"""
import os
import shutil
import signal
import stat
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NOBODY = 65534
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}


def _open_up(top):
    """Let everybody read what root made under top (a strict umask is no fault)."""
    for folder, _, names in os.walk(top):
        os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | 0o555)
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                mode = stat.S_IMODE(os.stat(path).st_mode)
                os.chmod(path, mode | 0o444 | (0o111 if mode & 0o100 else 0))


def _can_change_users(who):
    try:
        return subprocess.run(["/bin/sh", "-c", ":"], timeout=10, cwd="/", **who).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _who():
    """Nobody, wherever that can be: folders that the solution closed or filled do not let its programs run as root."""
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    if os.geteuid() != 0 or not _can_change_users(who):
        return {}
    if HERE == "/tests":
        os.chmod(HERE, 0o700)
    try:
        os.chmod("/tmp", 0o1777)
        _open_up("/app")
    except OSError:
        pass
    return who


WHO = _who()


def folder(case):
    """A fresh folder that the program under test owns; removed after the test."""
    path = tempfile.mkdtemp(prefix="case-", dir="/tmp")
    case.addCleanup(shutil.rmtree, path, ignore_errors=True)
    give(path)
    return path


def give(path):
    if WHO:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return path


def _default_signals():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def start(argv, cwd, **more):
    return subprocess.Popen(argv, cwd=cwd, env=dict(ENV), start_new_session=True, stdin=subprocess.DEVNULL, preexec_fn=_default_signals,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **{**WHO, **more})


def run(argv, cwd, timeout=10, **more):
    """(exit status, stdout, stderr) of argv; a program that does not end in time is killed and reported as None."""
    try:
        process = start(argv, cwd, **more)
    except OSError as error:
        return 127, b"", str(error).encode()
    try:
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        return None, b"", b"timed out"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        process.wait()
        process.stdout.close()
        process.stderr.close()
