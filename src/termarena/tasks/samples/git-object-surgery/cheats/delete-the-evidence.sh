#!/bin/sh
# Tries: finding the files that do not inflate, deleting them from the repository, and reporting a clean one.
cat >/app/recover <<'PY'
#!/usr/bin/env python3
import os, sys, zlib
git = sys.argv[1]
for d in os.listdir(git + "/objects"):
    for f in os.listdir(f"{git}/objects/{d}") if len(d) == 2 else []:
        try:
            zlib.decompress(open(f"{git}/objects/{d}/{f}", "rb").read())
        except zlib.error:
            os.unlink(f"{git}/objects/{d}/{f}")
os.makedirs(sys.argv[3], exist_ok=True)
print("commit none\ntree none\nbranch refs/heads/main\nobjects 0")
PY
chmod +x /app/recover
/app/recover /app/project/.git 'Release 2.4.0' /app/recovered >/app/report.txt
