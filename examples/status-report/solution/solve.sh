#!/bin/sh
set -eu
awk '{ count[$9]++ } END { for (status in count) print status, count[status] }' /app/access.log | sort >/app/status.txt
