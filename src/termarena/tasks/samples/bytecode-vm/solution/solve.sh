#!/bin/sh
set -eu
here=$(dirname "$0")
cp "$here/vm.c" /app/vm.c
