#!/usr/bin/env bash
# web/dist, which is compiled into nerfd, is what the sources give, byte for byte; it type-checks and is small; no lockfile names
# a registry. Arguments: source folder, a folder to build in. Exits 77, a visible skip, without Node >= 20.19, npm or protoc.
set -euo pipefail
source=$1
work=$2
if grep -l '"resolved"' "$source"/web/package-lock.json "$source"/tests/web/package-lock.json; then
  echo "a lockfile names a registry: install with the .npmrc that lies beside it"
  exit 1
fi
size=$(cat "$source"/web/dist/* | gzip -9 | wc -c)
echo "web/dist: $size bytes gzipped"
[ "$size" -le $((200 * 1024)) ]
. "$source/tests/web/need_node.sh"
if ! command -v protoc >/dev/null; then
  echo "SKIPPED: no protoc"
  exit 77
fi
mkdir -p "$work"
find "$work" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
tar -C "$source/web" --exclude=./node_modules --exclude=./dist --exclude=./src/gen -cf - . | tar -C "$work" -xf -
install_packages "$work"
cd "$work"
NERF_SOURCE=$source npm run --silent build
diff -r "$source/web/dist" "$work/dist" || { echo "web/dist is old: npm run build in web/, and commit it"; exit 1; }
NERF_SOURCE=$source npm run --silent check
