#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cp "$here/audit.py" /app/audit
chmod 755 /app/audit
cd /app
./audit check rules.fw >report.txt || [ $? -eq 1 ]
./audit query rules.fw packets.txt >answers.txt
# Delete the rules that never apply, then one redundant rule after the other, until all are needed.
cp rules.fw clean.fw
python3 - <<'PY'
import subprocess

while True:
    report = subprocess.run(["/app/audit", "check", "/app/clean.fw"], stdout=subprocess.PIPE, text=True).stdout.splitlines()
    useless = [line.split() for line in report if not line.endswith(" needed")]
    if not useless:
        break
    never = [int(number) for number, _, status in useless if status != "redundant"]
    with open("/app/clean.fw") as file:
        lines = file.readlines()
    for number in reversed(never or [int(useless[-1][0])]):
        del lines[number - 1]
    with open("/app/clean.fw", "w") as file:
        file.writelines(lines)
PY
