#!/usr/bin/env bash
# The tests in a browser. Arguments: source folder, folder of the binaries, a folder for npm, the script.
# Exits 77, a visible skip, without Node >= 20.19, npm, a registry to install from, or Chromium.
set -euo pipefail
source=$1
binaries=$2
work=$3
script=$4
. "$source/tests/web/need_node.sh"
chromium=${NERF_CHROMIUM:-/usr/bin/chromium}
if [ ! -x "$chromium" ]; then
  echo "SKIPPED: no $chromium"
  exit 77
fi
own=$work/${script%.mjs} # other tests may run beside this one
mkdir -p "$own"
cp "$source"/tests/web/*.mjs "$own"
(
  flock 9
  cp "$source"/tests/web/{package.json,package-lock.json,.npmrc} "$work"
) 9>"$work/.copy-lock"
install_packages "$work"
cd "$own"
NERF_SOURCE=$source NERF_BINARIES=$binaries NERF_CHROMIUM=$chromium node "$script"
