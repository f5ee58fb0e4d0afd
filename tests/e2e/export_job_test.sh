#!/usr/bin/env bash
# Export jobs with the built binaries: files have the bytes of `nerf-engine export`; a job of a
# killed worker starts again; cancel leaves no process; what cannot be made ends with the reason
# and writes nothing.
# Arguments: source folder, folder of the binaries.
set -euo pipefail
source=$1
binaries=$2

scratch=$(mktemp -d)
nerfd= worker=
end() {
  for process in $worker $nerfd; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$scratch"
}
trap end EXIT

mkdir "$scratch/server" "$scratch/made"
"$binaries/nerfd" --data-dir "$scratch/server" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  --web-listen none --no-local-worker 2>>"$scratch/nerfd.log" &
nerfd=$!
for _ in $(seq 200); do
  [ -e "$scratch/server/nerfd.ports" ] && break
  sleep 0.1
done
address=$(sed -n 's/.*"grpc":"\([^"]*\)".*/\1/p' "$scratch/server/nerfd.ports")
NERFCTL_TOKEN=$(cat "$scratch/server/admin.token")
export NERFCTL_TOKEN
start_worker() {
  "$binaries/nerf-worker" --server "$address" --cache-dir "$scratch/worker-1" \
    --token-file "$scratch/server/worker.token" 2>>"$scratch/worker.log" &
  worker=$!
}
ctl() { "$binaries/nerfctl" --server "$address" --progress none "$@"; }
engine() { "$binaries/nerf-engine" export "$scratch/mic.safetensors" "$@" >/dev/null; }
field() { # JOB KEY
  ctl --output json job show "$1" |
    sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" | head -1
}
await() { # JOB FIELD VALUE TENTHS
  for _ in $(seq "$4"); do
    [ "$(field "$1" "$2")" = "$3" ] && return
    sleep 0.1
  done
  echo "$1: $2 is $(field "$1" "$2"), not $3"
  tail -n 20 "$scratch"/*.log
  exit 1
}
newest() {
  local name
  name=$(ctl --output name job ls --kind export --limit 1)
  echo "${name##*/}"
}
processes() { # of exports in the folder of this test
  for process in /proc/[0-9]*; do
    { tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null | grep -E "nerf-engine export $scratch" || true
  done
}
# Exports of a very fine grid in the background, until its process runs. Sets `long` and `client`.
begin_long() {
  ctl export --model mic --where server --resolution 1024 --out "$scratch/made/long.ply" \
    >/dev/null 2>"$scratch/long" &
  client=$!
  for _ in $(seq 600); do
    [ -n "$(processes)" ] && break
    sleep 0.05
  done
  [ -n "$(processes)" ] || { echo "no export runs"; cat "$scratch/long"; exit 1; }
  long=$(newest)
}

# The size that is told for flags of an export.
told() { # FIELD FLAGS
  local key=$1; shift
  ctl --output json export --model mic --where server --dry-run "$@" |
    sed -n "s/^ *\"$key\": \([0-9.e+]*\).*/\1/p"
}
within() { # FILE BYTES SHARE
  awk -v made="$(stat -c %s "$1")" -v told="$2" -v share="$3" \
    'BEGIN { exit !(told >= (1 - share) * made && told <= (1 + share) * made) }' ||
    { echo "$1 has $(stat -c %s "$1") bytes, told were $2"; exit 1; }
}

start_worker
ctl train "$source/examples/mic" --samples 1M --seed 1 >/dev/null
job=$(ctl --output name job ls --limit 1)
ctl model promote "${job##*/}" --id mic >/dev/null
ctl model download mic --out "$scratch/mic.safetensors" >/dev/null

echo "== the bytes of nerf-engine export"
ctl export --job "${job##*/}" --where server --out "$scratch/made/mesh.glb" --frame blender \
  --resolution 64 >"$scratch/out"
grep -q "mesh of .* triangles.*axes: " "$scratch/out" || { cat "$scratch/out"; exit 1; }
engine --out "$scratch/mesh.glb" --frame blender --resolution 64
cmp "$scratch/made/mesh.glb" "$scratch/mesh.glb"
ctl export --model mic --where server --out "$scratch/made/textured.glb" --texture 256 \
  --resolution 48 --triangles 3000 >/dev/null
engine --out "$scratch/textured.glb" --texture 256 --resolution 48 --triangles 3000
cmp "$scratch/made/textured.glb" "$scratch/textured.glb"
ctl export --model mic --where server --out "$scratch/made/mic.vdb" --resolution 48 \
  --crop=0,0,0.3,1,1,1,0,0,0.6,0.8 >/dev/null
engine --out "$scratch/mic.vdb" --resolution 48 --crop=0,0,0.3,1,1,1,0,0,0.6,0.8
cmp "$scratch/made/mic.vdb" "$scratch/mic.vdb"
ctl export --model mic --out "$scratch/made/mic.html" >/dev/null
engine --out "$scratch/mic.html"
cmp "$scratch/made/mic.html" "$scratch/mic.html"
ctl export --model mic --where server --out "$scratch/made/baked.html" --baked \
  --crop=0,0,0.3,0.6,0.6,0.6 >/dev/null
engine --out "$scratch/baked.html" --baked --crop=0,0,0.3,0.6,0.6,0.6
cmp "$scratch/made/baked.html" "$scratch/baked.html"
for product in points splats sog; do
  amount="--resolution 64"
  [ "$product" = points ] || amount="--max-splats 1000"
  ctl export --model mic --where server --format $product --out "$scratch/made/$product.ply" \
    $amount --box=0,0,0,1,1,1 >/dev/null
  engine --out "$scratch/$product.ply" --format $product $amount --box=0,0,0,1,1,1
  cmp "$scratch/made/$product.ply" "$scratch/$product.ply"
done
cat >"$scratch/keys.json" <<'EOF'
{"keyframes": [{"transform_matrix": [[1,0,0,0],[0,0,-1,-3],[0,1,0,0],[0,0,0,1]], "fov": 40},
               {"transform_matrix": [[1,0,0,1],[0,0,-1,-3],[0,1,0,0],[0,0,0,1]], "fov": 40}]}
EOF
echo '{"keyframes": [{"transform_matrix": [[0]]}]}' >"$scratch/bad.json"
for product in nerfstudio-path ngp-path views; do
  ending=json
  [ "$product" != views ] || ending=zip
  for where in server local; do
    ctl export --model mic --where $where --format $product --keyframes "$scratch/keys.json" \
      --frames 3 --out "$scratch/made/$where-$product.$ending" >/dev/null
  done
  cmp "$scratch/made/server-$product.$ending" "$scratch/made/local-$product.$ending"
done
python3 -m zipfile -e "$scratch/made/server-views.zip" "$scratch/set"
[ "$(find "$scratch/set" -type f | wc -l)" = 7 ]
"$binaries/nerf-engine" check "$scratch/set" >/dev/null
ctl export --model mic --where server --format cameras --out "$scratch/made/cameras.json" >/dev/null
engine --out "$scratch/cameras.json" --format cameras
cmp "$scratch/made/cameras.json" "$scratch/cameras.json"
within "$scratch/mic.html" "$(told expectedBytes --out "$scratch/made/no.html")" 0.02
within "$scratch/cameras.json" "$(told expectedBytes --format cameras \
  --out "$scratch/made/no.json")" 0.35
within "$scratch/made/server-ngp-path.json" "$(told expectedBytes \
  --format ngp-path --out "$scratch/made/no.json" --keyframes "$scratch/keys.json")" 0.35
[ "$(told maxBytes --format points --out "$scratch/made/no.ply" --resolution 64 --box=0,0,0,1,1,1 |
  cut -d. -f1)" -gt "$(stat -c %s "$scratch/points.ply")" ]
[ ! -e "$scratch/made/no.html" ] && [ ! -e "$scratch/made/no.json" ]
made=$(newest)
ctl job fetch "$made" --out "$scratch/again.json" >/dev/null
cmp "$scratch/again.json" "$scratch/cameras.json"
[ "$(ctl --output name job ls --kind export | wc -l)" = 12 ]
ctl job rm "$made" >/dev/null
code=0
ctl job fetch "$made" --out "$scratch/gone.json" 2>/dev/null || code=$?
[ "$code" = 5 ] && [ ! -e "$scratch/gone.json" ]

echo "== views as EXR"
exr="--orbit 1 --width 40 --height 30 --channels rgba,depth --format exr"
# shellcheck disable=SC2086  # words
ctl render mic $exr --out "$scratch/made/views" >/dev/null
# shellcheck disable=SC2086
"$binaries/nerf-engine" render "$scratch/mic.safetensors" $exr --out "$scratch/views" \
  >/dev/null 2>&1
diff -r "$scratch/made/views" "$scratch/views"
one_file="--orbit 1 --width 40 --height 30 --channels rgbaz --format exr"
# shellcheck disable=SC2086
ctl render mic $one_file --out "$scratch/made/rgbaz" >/dev/null
# shellcheck disable=SC2086
"$binaries/nerf-engine" render "$scratch/mic.safetensors" $one_file --out "$scratch/rgbaz" \
  >/dev/null 2>&1
grep -q worldToCamera "$scratch/rgbaz/rgbaz_0000.exr"
diff -r "$scratch/made/rgbaz" "$scratch/rgbaz"

echo "== what cannot be made ends with the reason and leaves no file"
code=0
ctl export --model mic --where server --out "$scratch/made/far.ply" --box=900,900,900,1,1,1 \
  2>"$scratch/why" || code=$?
[ "$code" = 9 ] || { echo "exit code $code"; cat "$scratch/why"; exit 1; }
grep -q "export job .* failed: " "$scratch/why"
if grep -q "$scratch/worker-1" "$scratch/why"; then echo "names a path of the worker"; exit 1; fi
[ ! -e "$scratch/made/far.ply" ]
for flags in "--box=nan,0,0,1,1,1" "--box=0,0,0,1,-1,1" "--resolution 4" "--frame mars" \
  "--keyframes $scratch/keys.json"; do
  code=0
  # shellcheck disable=SC2086  # two words
  ctl export --model mic --where server --out "$scratch/made/bad.ply" $flags \
    2>"$scratch/why" || code=$?
  [ "$code" = 2 ] || { echo "$flags: exit code $code"; cat "$scratch/why"; exit 1; }
done
for flags in "--keyframes $scratch/bad.json" "--keyframes $scratch/keys.json --frames 9999" \
  "--box=0,0,0,1,1,1" "--frame blender" "--resolution 64" "--texture 256"; do
  code=0
  # shellcheck disable=SC2086  # words
  ctl export --model mic --where server --format ngp-path --out "$scratch/made/bad.json" $flags \
    2>"$scratch/why" || code=$?
  [ "$code" = 2 ] || { echo "$flags: exit code $code"; cat "$scratch/why"; exit 1; }
  [ ! -e "$scratch/made/bad.json" ]
done
code=0
ctl export --model nobody --out "$scratch/made/bad.ply" 2>/dev/null || code=$?
[ "$code" = 5 ]

echo "== the worker is killed; the job starts again and says so"
begin_long
kill -9 "$worker"; wait "$worker" 2>/dev/null || true
for _ in $(seq 20); do [ -z "$(processes)" ] && break; sleep 0.1; done
[ -z "$(processes)" ] || { echo "left behind: $(processes)"; exit 1; }
start_worker
await "$long" attempt 2 600

echo "== cancel ends it within a second and leaves no process and no file"
for _ in $(seq 300); do [ -n "$(processes)" ] && break; sleep 0.1; done
code=0
ctl job pause "$long" 2>"$scratch/why" || code=$?
[ "$code" = 7 ] || { echo "pause of an export job: exit code $code"; exit 1; }
grep -q "export job: it cannot be paused" "$scratch/why"
began=$(date +%s%N)
ctl job cancel "$long" >/dev/null
while [ "$(field "$long" state)" != CANCELLED ]; do
  [ $((($(date +%s%N) - began) / 1000000)) -lt 5000 ] || { echo "not cancelled"; exit 1; }
  sleep 0.02
done
took=$((($(date +%s%N) - began) / 1000000))
echo "cancelled in $took ms"
[ "$took" -lt 1500 ]
[ -z "$(processes)" ] || { echo "left behind: $(processes)"; exit 1; }
code=0
wait "$client" || code=$?
[ "$code" = 3 ] || { echo "exit code $code"; cat "$scratch/long"; exit 1; }
[ ! -e "$scratch/made/long.ply" ]

echo "== without a worker nerfctl exports here, by the same bytes"
kill "$worker"; wait "$worker" 2>/dev/null || true
worker=
ctl export --model mic --out "$scratch/made/here.glb" --frame blender --resolution 64 \
  >/dev/null 2>"$scratch/why"
grep -q "exporting here" "$scratch/why"
cmp "$scratch/made/here.glb" "$scratch/mesh.glb"
for _ in $(seq 50); do
  left=$(find "$scratch/worker-1/rooms" -path '*/jobs/*' 2>/dev/null || true)
  [ -z "$left" ] && break
  sleep 0.1
done
[ -z "$left" ] || { echo "files are left: $left"; exit 1; }
echo "OK"
