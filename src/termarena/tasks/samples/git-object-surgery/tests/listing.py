"""What is below a folder."""
import hashlib
import os
import stat


def listing(top):
    """{relative path: (kind, permissions, content)} of all below a folder."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            key = os.path.relpath(path, top)
            if stat.S_ISLNK(mode):
                found[key] = ("link", None, os.readlink(path))
            elif stat.S_ISDIR(mode):
                found[key] = ("folder", oct(stat.S_IMODE(mode)), None)
            else:
                with open(path, "rb") as file:
                    found[key] = ("file", oct(stat.S_IMODE(mode)), hashlib.sha256(file.read()).hexdigest())
    return found
