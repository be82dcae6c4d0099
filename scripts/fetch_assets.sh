#!/bin/sh
# Fetch what others ship for the arena's pages and for their tests, in fixed versions, from wherever npm is set up to look.
# Run by hand to move to another version; the files are in the repository.
set -eu
cd "$(dirname "$0")/.."
player=3.17.0
axe=4.14.0
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

fetch() { # package, version
  (cd "$made" && npm pack --silent "$1@$2" >/dev/null && mkdir "$1" && tar xzf "$1-$2.tgz" -C "$1" --strip-components=1)
}

fetch asciinema-player "$player"
assets=src/termarena/arena/assets
cp "$made/asciinema-player/dist/bundle/asciinema-player.min.js" "$made/asciinema-player/dist/bundle/asciinema-player.css" "$assets/"
cp "$made/asciinema-player/LICENSE" "$assets/asciinema-player.LICENSE"

fetch axe-core "$axe"
cp "$made/axe-core/axe.min.js" "$made/axe-core/LICENSE" tests/arena/axe/
echo "asciinema-player $player, axe-core $axe" >&2
