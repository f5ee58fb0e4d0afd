#!/usr/bin/env bash
# Runs `buf lint` over proto/. Exits 77, a visible skip, where npx cannot fetch @bufbuild/buf.
set -euo pipefail
cd "$1/proto"
if ! command -v npx >/dev/null; then
  echo "SKIPPED: no npx"
  exit 77
fi
if ! timeout 120 npx --yes @bufbuild/buf@1 --version >/dev/null 2>&1; then
  echo "SKIPPED: npx cannot fetch @bufbuild/buf"
  exit 77
fi
# third_party is a second module for the imports; only proto/ is linted.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r . "$scratch/proto"
cp -r ../third_party/googleapis "$scratch/googleapis"
printf 'version: v1\nlint:\n  ignore: [google]\n' >"$scratch/googleapis/buf.yaml"
printf 'version: v1\ndirectories: [proto, googleapis]\n' >"$scratch/buf.work.yaml"
cd "$scratch"
npx --yes @bufbuild/buf@1 lint
