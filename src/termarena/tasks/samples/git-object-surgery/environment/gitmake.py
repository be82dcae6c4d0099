"""Builds Git repositories without Git: loose objects, packs (version 2) with offset and reference deltas, damage on request."""
import hashlib
import os
import struct
import zlib

TYPES = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
OFS, REF = 6, 7


def delta(base, target):
    """Git delta from base to target: copies of matching stretches, insertions of the rest."""
    def length(n):
        out = b""
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n])

    blocks = {}
    for i in range(0, len(base) - 15, 16):
        blocks.setdefault(base[i:i + 16], i)
    out, fresh, i = length(len(base)) + length(len(target)), b"", 0

    def insert():
        nonlocal out, fresh
        while fresh:
            out += bytes([min(len(fresh), 127)]) + fresh[:127]
            fresh = fresh[127:]

    while i < len(target):
        at = blocks.get(target[i:i + 16]) if len(target) - i >= 16 else None
        if at is None:
            fresh += target[i:i + 1]
            i += 1
            continue
        size = 16
        for step in (4096, 256, 16, 1):
            while i + size + step <= len(target) and base[at + size:at + size + step] == target[i + size:i + size + step]:
                size += step
        i += size
        while fresh and at and base[at - 1] == fresh[-1]:
            fresh, at, size = fresh[:-1], at - 1, size + 1
        insert()
        while size:
            part = min(size, 0x10000)
            op, rest = 0x80, b""
            for bit in range(4):
                if at >> 8 * bit & 255:
                    op |= 1 << bit
                    rest += bytes([at >> 8 * bit & 255])
            for bit in range(3):
                if part != 0x10000 and part >> 8 * bit & 255:
                    op |= 16 << bit
                    rest += bytes([part >> 8 * bit & 255])
            out += bytes([op]) + rest
            at, size = at + part, size - part
    insert()
    return out


class Repository:
    def __init__(self, path, head):
        self.path, self.objects = path, {}
        for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            os.makedirs(os.path.join(path, folder))
        self.file("HEAD", f"ref: {head}\n".encode())
        self.file("config", b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n")
        self.file("description", b"Unnamed repository\n")
        self.file("info/exclude", b"*~\n")

    def file(self, name, content):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(content)
        return path

    # objects, kept in memory until they are stored

    def add(self, kind, data):
        ident = hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()
        self.objects[ident] = (kind, data)
        return ident

    def blob(self, data):
        return self.add("blob", data if isinstance(data, bytes) else data.encode())

    def tree(self, entries):
        """entries: {name: (mode, id) or (id of a tree)}"""
        rows = []
        for name, entry in entries.items():
            mode, ident = entry if isinstance(entry, tuple) else ("40000", entry)
            rows.append((name.encode() + (b"/" if mode == "40000" else b""), f"{mode} {name}\0".encode() + bytes.fromhex(ident)))
        return self.add("tree", b"".join(row for _, row in sorted(rows)))

    def commit(self, tree, parents, message, author=1700000000, committer=None, zone="+0000", extra="", who="Ada Quill <ada@example.org>"):
        lines = [f"tree {tree}"] + [f"parent {p}" for p in parents]
        lines += [f"author {who} {author} {zone}", f"committer {who} {author if committer is None else committer} {zone}"]
        return self.add("commit", ("\n".join(lines) + "\n" + extra + "\n" + message).encode())

    def tag(self, target, name, message):
        return self.add("tag", f"object {target}\ntype commit\ntag {name}\ntagger Ada Quill <ada@example.org> 1900000000 +0000\n\n{message}".encode())

    # storage

    def loose(self, ident, content=None, level=-1):
        """Stores an object as a loose file; content overrides what the file holds."""
        kind, data = self.objects[ident]
        raw = zlib.compress(f"{kind} {len(data)}\0".encode() + data, level) if content is None else content
        return self.file(f"objects/{ident[:2]}/{ident[2:]}", raw)

    def pack(self, plan, broken=()):
        """Stores a pack with entries in the order of plan, a list of ids or (id, "ofs" or "ref", id of the base). broken: ids whose data is damaged afterwards."""
        body, where, crcs, ends = b"PACK" + struct.pack(">II", 2, len(plan)), {}, {}, {}
        for step in plan:
            ident, how, base = step if isinstance(step, tuple) else (step, None, None)
            kind, data = self.objects[ident]
            start, number, link = len(body), TYPES[kind], b""
            if how:
                data = delta(self.objects[base][1], data)
                number, link = (OFS, self.distance(start - where[base])) if how == "ofs" else (REF, bytes.fromhex(base))
            size, head = len(data), b""
            first = number << 4 | size & 15
            size >>= 4
            while size:
                head += bytes([first | 128])
                first, size = size & 127, size >> 7
            entry = head + bytes([first]) + link + zlib.compress(data)
            where[ident], crcs[ident], ends[ident] = start, zlib.crc32(entry), (start + len(head) + 1 + len(link), start + len(entry))
            body += entry
        body += hashlib.sha1(body).digest()
        ids = sorted(where)
        name = "pack-" + hashlib.sha1("".join(ids).encode()).hexdigest()
        index = b"\xfftOc" + struct.pack(">I", 2)
        index += b"".join(struct.pack(">I", sum(int(i[:2], 16) <= n for i in ids)) for n in range(256))
        index += b"".join(bytes.fromhex(i) for i in ids) + b"".join(struct.pack(">I", crcs[i]) for i in ids) + b"".join(struct.pack(">I", where[i]) for i in ids)
        index += body[-20:]
        body = bytearray(body)
        for ident in broken:
            low, high = ends[ident]
            for at in range((low + high) // 2 - 2, (low + high) // 2 + 2):
                body[at] ^= 255
        self.file(f"objects/pack/{name}.pack", bytes(body))
        self.file(f"objects/pack/{name}.idx", index + hashlib.sha1(index).digest())
        return name + ".pack"

    @staticmethod
    def distance(n):
        out = bytes([n & 127])
        while n > 127:
            n = (n >> 7) - 1
            out = bytes([n & 127 | 128]) + out
        return out


def noise(seed, size):
    """Bytes that do not compress, always the same."""
    out = b""
    while len(out) < size:
        out += hashlib.sha256(f"{seed}/{len(out)}".encode()).digest()
    return out[:size]


def project(path):
    """The repository of the task. Returns what is to be found: commit, branch, files, corrupt copies, number of objects."""
    repo = Repository(path, "refs/heads/release/2.4")
    guide = "".join(f"{n:3}. How to do thing number {n} with the tool, in one line.\n" for n in range(1, 160))
    core = "".join(f"def step_{n}(value):\n    return value * {n} + {n * n % 97}\n\n\n" for n in range(1, 90))
    data = noise("table", 40000)
    run = repo.blob("#!/bin/sh\nexec python3 -m tool \"$@\"\n")
    versions, plan, loose = [], [], []
    for n in range(1, 10):
        guide = guide.replace(f"{n * 7:3}. How", f"{n * 7:3}. (new in 2.{n % 5}) How")
        core = core.replace(f"* {n * 5} +", f"* {n * 5 + 1} +")
        data = data[:n * 3000] + noise(n, 120) + data[n * 3000 + 100:]
        versions.append((repo.blob(guide), repo.blob(core), repo.blob(data)))
    link, empty, crlf = repo.blob("../docs/GUIDE.txt"), repo.blob(b""), repo.blob(b"line one\r\nline two\r\n\0tail")
    notes = [repo.blob(f"Notes for 2.{n}\n") for n in range(1, 5)]

    def tree(version, extra):
        guide_id, core_id, data_id = versions[version]
        docs = repo.tree({"GUIDE.txt": ("100644", guide_id), "dos file.txt": ("100644", crlf), "old": repo.tree({"-notes": ("100644", notes[version % 4])})})
        src = repo.tree({"core.py": ("100644", core_id), "__init__.py": ("100644", empty), "guide": ("120000", link), "table.bin": ("100644", data_id)})
        return repo.tree({"docs": docs, "tool": src, "run.sh": ("100755", run), "vendor": repo.tree({"lib": ("160000", "1234567890" * 4)}), **extra})

    trees = [tree(n, {"VERSION": ("100644", repo.blob(f"2.3.{n}\n" if n < 5 else f"2.4.0rc{n - 5}\n"))}) for n in range(9)]
    history, parent = [], []
    for n in range(6):
        history.append(repo.commit(trees[n], parent, f"Work on step {n}\n\nPreparing for\nRelease 2.4.0\n", 1699000000 + 86400 * n))
        parent = [history[-1]]
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n committer Eve <eve@example.org> 1999999999 +0000\n -----END PGP SIGNATURE-----\n"
    first = repo.commit(trees[6], parent, "Release 2.4.0\n", 1699900000, 1699900000, "-1100")
    second = repo.commit(trees[7], parent, "Release 2.4.0\n\nFixes the guide.\n", 1699899000, 1699906400, "+0200", signature)
    third = repo.commit(trees[8], parent, "Release 2.4.0\n", 1699990000, 1699905000, "-0800")
    later = repo.commit(trees[8], [third], "Release 2.4.0 (again)\n", 1699999000)
    tag = repo.tag(third, "v2.4.0", "Release 2.4.0\n")

    blobs = [version[i] for i in range(3) for version in versions]
    for i in range(3):
        chain = [version[i] for version in versions]
        plan.append(chain[4])
        for a, b in zip(chain[4:], chain[5:]):
            plan.append((b, "ofs", a))
        for a, b in list(zip(chain[1:5], chain[:4]))[::-1]:
            plan.append((b, "ref", a))
    plan[1], plan[2] = plan[2], plan[1]
    plan[1] = (plan[1][0], "ref", plan[1][2])  # a delta whose base comes later
    everything = [i for i in repo.objects if i not in blobs]
    packed = [i for i in everything if i not in (second, third, later, tag, crlf) and repo.objects[i] != ("blob", b"2.4.0rc2\n")]
    trees_in = [i for i in packed if repo.objects[i][0] == "tree"]
    for i in packed:
        if i in trees_in and trees_in.index(i) > 6 and len(repo.objects[i][1]) > 100:
            plan.append((i, "ofs", trees_in[trees_in.index(i) - 4]))
        elif i in history[2:]:
            plan.append((i, "ref", history[1]))
        else:
            plan.append(i)
    repo.pack(plan)
    for i in everything:
        if i not in packed:
            loose.append(i)
    loose += [versions[7][0], history[5], trees[7]]
    for i in loose:
        repo.loose(i)
    bad = versions[7][1]
    with open(repo.loose(bad), "r+b") as file:
        size = os.path.getsize(file.name)
        file.seek(size // 2)
        chunk = file.read(6)
        file.seek(size // 2)
        file.write(bytes(b ^ 255 for b in chunk))
    repo.file("objects/1f/tmp_obj_Qx7Zk2", b"\0\0\0")
    return {"repo": repo, "commit": second, "branch": "refs/heads/release/2.4", "corrupt": [(bad, "loose")], "objects": len(repo.objects)}
