#!/usr/bin/env bash
# The include check must pass on the tree, and must fail on a copy with one wrong include, one heavy
# header behind another, an arrow up, a circle and a folder of too many files; of the page's modules
# an arrow up and a circle.
set -euo pipefail
source=$1
python3 "$source/tests/check_includes.py" "$source"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for folder in common engine server worker client; do cp -r "$source/$folder" "$scratch/"; done
mkdir "$scratch/web"
cp -r "$source"/web/{src,viewer} "$scratch/web/"
sed -i '1i import type { ListedNames } from "./names";' "$scratch/web/src/lib/capture.ts"
sed -i '0,/<script lang="ts">/s||&\n  import {\n    thing,\n  } from "../pages/Job.svelte";|' \
  "$scratch/web/src/parts/Meter.svelte"
echo '#include "nerf/v1/common.pb.h"' >>"$scratch/engine/base/check.h"
echo '#include "nlohmann/json.hpp"' >>"$scratch/engine/base/protocol/export_lines.h"
sed -i 's|^nerf_may_include(|&engine/program/serve |' "$scratch/engine/scene/judge/CMakeLists.txt"
sed -i 's|^nerf_may_include(|&server/store |' "$scratch/server/queue/jobs/CMakeLists.txt"
for i in $(seq 41); do : >"$scratch/engine/export/mesh/a_$i.h"; done
if python3 "$source/tests/check_includes.py" "$scratch" >"$scratch/output"; then
  echo "the check let engine/base include a protobuf header"
  exit 1
fi
grep -q 'engine/base/check.h includes "nerf/v1/common.pb.h"' "$scratch/output"
grep -q 'export_program.h brings in "nlohmann/json.hpp" by engine/base/protocol/export_lines.h' \
  "$scratch/output"
grep -q 'engine/scene/judge may include engine/program/serve, which is a room above' \
  "$scratch/output"
grep -q 'a circle: .*server/queue/jobs -> server/store' "$scratch/output"
grep -q 'engine/export/mesh has .* files; at most 40' "$scratch/output"
grep -q 'a circle: web/src/lib/capture.ts -> web/src/lib/names.ts -> web/src/lib/capture.ts' \
  "$scratch/output"
grep -q 'Meter.svelte imports web/src/pages/Job.svelte, which is on a floor above' "$scratch/output"
