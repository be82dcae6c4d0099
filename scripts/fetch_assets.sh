#!/bin/sh
# Fetch what others ship for the arena's pages and for their tests, in fixed versions, from wherever npm is set up to look.
# Run by hand to move to another version; the files are in the repository.
set -eu
cd "$(dirname "$0")/.."
player=3.17.0
plot=1.6.32
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

fetch uplot "$plot"
cp "$made/uplot/dist/uPlot.iife.min.js" "$assets/uplot.min.js"
cp "$made/uplot/dist/uPlot.min.css" "$assets/uplot.css"
cp "$made/uplot/LICENSE" "$assets/uplot.LICENSE"

fetch axe-core "$axe"
cp "$made/axe-core/axe.min.js" "$made/axe-core/LICENSE" tests/arena/axe/
echo "asciinema-player $player, uPlot $plot, axe-core $axe" >&2
