#!/usr/bin/env python3
"""recover GIT_DIR SUBJECT OUT_DIR: finds a lost commit in a damaged repository, without Git."""
import hashlib
import os
import re
import struct
import sys
import zlib

KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}


class Corrupt(Exception):
    pass


def object_id(kind, data):
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()


def inflate(raw):
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(raw)
    except zlib.error as error:
        raise Corrupt(str(error)) from None
    if not stream.eof:
        raise Corrupt("truncated")
    return data


def read_loose(path):
    with open(path, "rb") as file:
        data = inflate(file.read())
    head, found, body = data.partition(b"\0")
    match = re.fullmatch(rb"(commit|tree|blob|tag) ([0-9]+)", head)
    if not found or not match or int(match[2]) != len(body):
        raise Corrupt("bad header")
    return match[1].decode(), body


def apply_delta(base, delta):
    at = 0

    def size():
        nonlocal at
        value = shift = 0
        while True:
            byte = delta[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    try:
        if size() != len(base):
            raise Corrupt("wrong base")
        wanted, out = size(), []
        while at < len(delta):
            op = delta[at]
            at += 1
            if op & 128:
                numbers = [0] * 7
                for bit in range(7):
                    if op >> bit & 1:
                        numbers[bit] = delta[at]
                        at += 1
                start = int.from_bytes(bytes(numbers[:4]), "little")
                length = int.from_bytes(bytes(numbers[4:]), "little") or 0x10000
                if start + length > len(base):
                    raise Corrupt("copy beyond the base")
                out.append(base[start:start + length])
            elif op:
                out.append(delta[at:at + op])
                at += op
            else:
                raise Corrupt("reserved delta instruction")
    except IndexError:
        raise Corrupt("truncated delta") from None
    data = b"".join(out)
    if len(data) != wanted:
        raise Corrupt("wrong size of delta result")
    return data


class Pack:
    def __init__(self, path):
        self.name = os.path.basename(path)
        with open(path, "rb") as file:
            self.raw = file.read()
        with open(path[:-5] + ".idx", "rb") as file:
            index = file.read()
        if index[:8] != b"\xfftOc\0\0\0\2":
            raise Corrupt(f"{path}: unknown index")
        count, = struct.unpack_from(">I", index, 8 + 255 * 4)
        names, offsets = 8 + 1024, 8 + 1024 + 24 * count
        self.offset = {}
        for i in range(count):
            at, = struct.unpack_from(">I", index, offsets + 4 * i)
            if at >> 31:
                at, = struct.unpack_from(">Q", index, offsets + 4 * count + 8 * (at & 0x7FFFFFFF))
            self.offset[index[names + 20 * i:names + 20 * i + 20].hex()] = at
        self.ends = sorted(self.offset.values()) + [len(self.raw) - 20]
        self.done = {}

    def entry(self, start):
        """(kind, data, offset of the base or None) at an offset; data is a delta if there is a base."""
        at = start
        byte = self.raw[at]
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        at += 1
        while byte & 128:
            byte = self.raw[at]
            size |= (byte & 127) << shift
            shift += 7
            at += 1
        base = None
        if kind == 6:
            byte = self.raw[at]
            back = byte & 127
            at += 1
            while byte & 128:
                byte = self.raw[at]
                back = (back + 1 << 7) | byte & 127
                at += 1
            base = start - back
        elif kind == 7:
            base = self.offset.get(self.raw[at:at + 20].hex())
            at += 20
            if base is None:
                raise Corrupt("base is missing")
        elif kind not in KINDS:
            raise Corrupt("unknown kind of entry")
        data = inflate(self.raw[at:next(end for end in self.ends if end > start)])
        if len(data) != size:
            raise Corrupt("wrong size")
        return KINDS.get(kind), data, base

    def read(self, start):
        """(kind, data) of the object at an offset. Walks down to the base and back up, as chains can be long."""
        chain, at = [], start
        while at not in self.done:
            try:
                kind, data, base = self.entry(at)
            except IndexError:
                raise Corrupt("truncated") from None
            if base is None:
                self.done[at] = kind, data
            else:
                if any(at == seen for seen, _ in chain):
                    raise Corrupt("chain of deltas without end")
                chain.append((at, data))
                at = base
        kind, data = self.done[at]
        for at, change in reversed(chain):
            data = apply_delta(data, change)
            self.done[at] = kind, data
        return kind, data


def scan(git_dir):
    """({id: (kind, data)}, [(id, place) of corrupt copies])"""
    good, bad = {}, []
    top = os.path.join(git_dir, "objects")

    def take(ident, place, read):
        try:
            kind, data = read()
            if object_id(kind, data) != ident:
                raise Corrupt("wrong id")
            good[ident] = kind, data
        except (Corrupt, OSError):
            bad.append((ident, place))

    for folder in sorted(os.listdir(top)):
        if re.fullmatch("[0-9a-f]{2}", folder):
            for name in sorted(os.listdir(os.path.join(top, folder))):
                if re.fullmatch("[0-9a-f]{38}", name):
                    take(folder + name, "loose", lambda: read_loose(os.path.join(top, folder, name)))
    packs = os.path.join(top, "pack")
    for name in sorted(os.listdir(packs)) if os.path.isdir(packs) else []:
        if name.endswith(".pack") and os.path.isfile(os.path.join(packs, name[:-5] + ".idx")):
            pack = Pack(os.path.join(packs, name))
            for ident, offset in pack.offset.items():
                take(ident, name, lambda: pack.read(offset))
    return good, sorted(bad)


def entries(data):
    """(mode, name, id) of the entries of a tree."""
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, name = data[at:end].split(b" ", 1)
        yield mode.decode().zfill(6), name, data[end + 1:end + 21].hex()
        at = end + 21


def find(good, subject):
    best = None
    for ident, (kind, data) in good.items():
        if kind != "commit":
            continue
        head, _, message = data.partition(b"\n\n")
        if message.split(b"\n", 1)[0] == subject:
            # continuation lines of headers begin with a space
            committer = next(line for line in head.split(b"\n") if line.startswith(b"committer "))
            when = int(committer.rsplit(b" ", 2)[1])
            if best is None or when > best[0]:
                best = when, ident, head.split(b"\n")[0].split(b" ")[1].decode()
    return best


def collect(good, tree, prefix=()):
    """All entries below a tree as (path, mode, content); KeyError if something is missing."""
    for mode, name, ident in entries(good[tree][1]):
        path = (*prefix, name)
        if mode == "040000":
            yield path, mode, None
            yield from collect(good, ident, path)
        else:
            yield path, mode, None if mode == "160000" else good[ident][1]


def main():
    if len(sys.argv) != 4:
        print("usage: recover GIT_DIR SUBJECT OUT_DIR", file=sys.stderr)
        return 2
    git_dir, subject, out = sys.argv[1], os.fsencode(sys.argv[2]), os.fsencode(sys.argv[3])
    if os.path.lexists(out):
        print("recover: OUT_DIR exists", file=sys.stderr)
        return 1
    with open(os.path.join(git_dir, "HEAD")) as file:
        branch = file.read().strip().removeprefix("ref:").strip()
    good, bad = scan(git_dir)
    found = find(good, subject)
    if not found:
        print("recover: no such commit", file=sys.stderr)
        return 1
    _, commit, tree = found
    try:
        content = list(collect(good, tree))
    except KeyError as error:
        print(f"recover: {error.args[0]} is lost", file=sys.stderr)
        return 1

    os.umask(0o022)
    os.makedirs(out)
    for path, mode, data in content:
        path = os.path.join(out, *path)
        if mode in ("040000", "160000"):
            os.mkdir(path, 0o755)
        elif mode == "120000":
            os.symlink(data, path)
        else:
            with open(path, "wb") as file:
                file.write(data)
            os.chmod(path, 0o755 if mode == "100755" else 0o644)
    ref = os.path.join(git_dir, branch)
    os.makedirs(os.path.dirname(ref), exist_ok=True)
    with open(ref, "w") as file:
        file.write(commit + "\n")
    print(f"commit {commit}\ntree {tree}\nbranch {branch}\nobjects {len(good)}")
    for ident, place in bad:
        print(f"corrupt {ident} {place}")
    return 0


sys.exit(main())
