#!/bin/sh
# Makes /app/backups: empty files under backup names, all with the same times.
set -eu
mkdir -p /app/backups
cd /app/backups
python3 -B - <<'PY'
import datetime
import os

day = datetime.timedelta(1)
names = []


def series(name, suffix, first, last, step):
    date = first
    while date <= last:
        names.append(f"{name}_{date}{suffix}")
        date += step * day


D = datetime.date
series("db", ".sql.gz", D(2023, 11, 20), D(2024, 3, 10), 1)
series("db", ".tar.gz", D(2023, 6, 4), D(2024, 3, 3), 13)
series("home of anna", ".tar.gz", D(2023, 7, 1), D(2024, 3, 12), 5)
series("-web", ".tar.gz", D(2022, 12, 25), D(2023, 2, 25), 3)
series("old_2019-12-31", ".sql.gz", D(2023, 12, 18), D(2024, 1, 14), 2)
names += ["db_2024-02-30.sql.gz", "db_2024-02-27.sql", "db-2024-02-27.sql.gz", "_2024-02-27.sql.gz", ".db_2024-02-27.sql.gz", "README"]
for name in names:
    with open(name, "w"):
        pass
os.mkdir("dir_2023-01-01.tar.gz")
os.symlink("README", "link_2023-01-01.tar.gz")
for name in os.listdir("."):
    os.utime(name, (1704067200, 1704067200), follow_symlinks=False)
PY
