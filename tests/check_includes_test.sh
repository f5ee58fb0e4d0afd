#!/usr/bin/env bash
# The include check must pass on the tree, and must fail on a copy with one wrong include and one
# heavy header behind another.
set -euo pipefail
source=$1
python3 "$source/tests/check_includes.py" "$source"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for folder in common engine server worker client; do cp -r "$source/$folder" "$scratch/"; done
echo '#include "nerf/v1/common.pb.h"' >>"$scratch/engine/base/check.h"
echo '#include "nlohmann/json.hpp"' >>"$scratch/engine/base/protocol/export_lines.h"
if python3 "$source/tests/check_includes.py" "$scratch" >"$scratch/output"; then
  echo "the check let engine/base include a protobuf header"
  exit 1
fi
grep -q 'engine/base/check.h includes "nerf/v1/common.pb.h"' "$scratch/output"
grep -q 'export_program.h brings in "nlohmann/json.hpp" by engine/base/protocol/export_lines.h' \
  "$scratch/output"
