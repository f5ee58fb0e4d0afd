#!/usr/bin/env bash
# Fails when clang-format would change a source file; names each.
set -euo pipefail
cd "$1"
if ! command -v clang-format >/dev/null; then
  echo "SKIPPED: no clang-format"
  exit 77
fi
find common engine server worker client tests \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 clang-format --dry-run --Werror
