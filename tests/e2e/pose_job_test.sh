#!/usr/bin/env bash
# Pose jobs with the built binaries and real COLMAP: photographs become a scene that trains, also
# when the worker is killed on the way; cancel leaves no process; photographs that cannot be posed
# end with the reason. Arguments: source folder, folder of the binaries. Exits 77, a visible skip,
# without COLMAP or NERF_TEST_DATA.
set -euo pipefail
binaries=$2
command -v colmap >/dev/null || { echo "SKIPPED: no colmap"; exit 77; }
fox=${NERF_TEST_DATA:-/nowhere}/fox_quarter/images
[ -d "$fox" ] || { echo "SKIPPED: no $fox; NERF_TEST_DATA names the folder of test data"; exit 77; }

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

mkdir "$scratch/server" "$scratch/photos" "$scratch/same"
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
  "$binaries/nerf-worker" --server "$address" --cache-dir "$scratch/$1" \
    --token-file "$scratch/server/worker.token" 2>>"$scratch/$1.log" &
  worker=$!
}
ctl() { "$binaries/nerfctl" --server "$address" --progress none "$@"; }
field() { # JOB KEY
  ctl --output json pose-job show "$1" | sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" | head -1
}
await() { # JOB FIELD VALUE SECONDS
  for _ in $(seq $((10 * $4))); do
    [ "$(field "$1" "$2")" = "$3" ] && return
    sleep 0.1
  done
  echo "$1: $2 is $(field "$1" "$2"), not $3"
  ctl pose-job show "$1"
  tail -n 20 "$scratch"/*.log
  exit 1
}
processes() { # of COLMAP about the folder of this test
  for process in /proc/[0-9]*; do
    { tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null | grep -E "^[^ ]*colmap .*$scratch" || true
  done
}
await_process() {
  for _ in $(seq 300); do
    [ -n "$(processes)" ] && return
    sleep 0.05
  done
  echo "COLMAP does not run"
  exit 1
}
await_no_process() {
  for _ in $(seq 20); do
    [ -z "$(processes)" ] && return
    sleep 0.1
  done
  echo "left behind: $(processes)"
  exit 1
}
find "$fox" -name "*.jpg" | sort | head -8 | xargs -I{} cp {} "$scratch/photos/"

echo "== without a worker that can do it, the job waits and says why"
ctl pose "$scratch/photos" --id killed --detach >"$scratch/out"
grep -q "no worker is connected" "$scratch/out"
start_worker worker-1
await killed state RUNNING 60

echo "== the worker is killed; the job starts again and says so"
await_process
kill -9 "$worker"; wait "$worker" 2>/dev/null || true
await_no_process
start_worker worker-1
await killed state SUCCEEDED 900
[ "$(field killed attempt)" = 2 ]
[ "$(field killed posed)" -ge 7 ]
ctl --output json worker ls >"$scratch/out"
grep -q '"colmapVersion": *"[0-9]' "$scratch/out"

echo "== its scene trains"
ctl --output json scene show killed >"$scratch/out"
grep -q '"images/' "$scratch/out"
ctl job create killed --samples 300k --watch >/dev/null

echo "== nerfctl train lets the worker find the poses"
ctl train "$scratch/photos" --samples 50k --detach >/dev/null &
train=$!
for _ in $(seq 600); do
  second=$(ctl --output name pose-job ls --limit 1)
  second=${second##*/}
  [ "$second" != killed ] && [ "$(field "$second" state)" = RUNNING ] && break
  sleep 0.1
done

echo "== cancel leaves no process"
await_process
ctl pose-job cancel "$second" >/dev/null
await "$second" state CANCELLED 2
await_no_process
wait "$train" && { echo "a cancelled search was trained on"; exit 1; }

echo "== what cannot be posed ends with the reason"
for i in 1 2 3 4; do cp "$fox/0001.jpg" "$scratch/same/$i.jpg"; done
code=0
ctl pose "$scratch/same" >/dev/null 2>"$scratch/why" || code=$?
[ "$code" = 9 ] || { echo "exit code $code"; cat "$scratch/why"; exit 1; }
grep -q photographs "$scratch/why"
for _ in $(seq 50); do
  left=$(find "$scratch/worker-1/rooms" -path '*/jobs/*')
  [ -z "$left" ] && break
  sleep 0.1
done
[ -z "$left" ] || { echo "files are left: $left"; exit 1; }
ctl pose-job rm killed "$second" >/dev/null
ctl scene show killed >/dev/null
echo "OK"
