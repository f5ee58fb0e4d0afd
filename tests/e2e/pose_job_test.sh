#!/usr/bin/env bash
# Pose jobs with the built binaries and real COLMAP: photographs become a scene that trains and
# grows, also when worker, engine, COLMAP or server are killed on the way; cancel leaves no process;
# photographs that cannot be posed end with the reason. Arguments: source folder, folder of the
# binaries. Exits 77, a visible skip, without COLMAP or NERF_TEST_DATA.
set -euo pipefail
source=$1 binaries=$2
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
start_server() { # PORT
  rm -f "$scratch/server/nerfd.ports"
  "$binaries/nerfd" --data-dir "$scratch/server" --listen "127.0.0.1:$1" \
    --metrics-listen 127.0.0.1:0 --web-listen 127.0.0.1:0 --no-local-worker \
    2>>"$scratch/nerfd.log" &
  nerfd=$!
  for _ in $(seq 200); do
    [ -e "$scratch/server/nerfd.ports" ] && break
    sleep 0.1
  done
  address=$(sed -n 's/.*"grpc":"\([^"]*\)".*/\1/p' "$scratch/server/nerfd.ports")
  web=http://$(sed -n 's/.*"web":"\([^"]*\)".*/\1/p' "$scratch/server/nerfd.ports")
}
start_server 0
NERFCTL_TOKEN=$(cat "$scratch/server/admin.token")
export NERFCTL_TOKEN
start_worker() {
  "$binaries/nerf-worker" --server "$address" --cache-dir "$scratch/$1" \
    --token-file "$scratch/server/worker.token" 2>>"$scratch/$1.log" &
  worker=$!
}
ctl() { "$binaries/nerfctl" --server "$address" --progress none "$@"; }
field() { # JOB KEY
  ctl --output json job show "$1" | sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" | head -1
}
await() { # JOB FIELD VALUE SECONDS
  for _ in $(seq $((10 * $4))); do
    [ "$(field "$1" "$2")" = "$3" ] && return
    sleep 0.1
  done
  echo "$1: $2 is $(field "$1" "$2"), not $3"
  ctl job show "$1"
  tail -n 20 "$scratch"/*.log
  exit 1
}
processes() { # [PROGRAM]: of COLMAP, or another one, about the folder of this test
  local words process pattern="^[^ ]*${1:-colmap} .*$scratch"
  for process in /proc/[0-9]*; do
    { mapfile -d '' words <"$process/cmdline"; } 2>/dev/null || continue
    [[ "${words[*]}" =~ $pattern ]] && echo "${process#/proc/} ${words[*]}"
  done
  true
}
await_process() {
  for _ in $(seq 300); do
    [ -n "$(processes)" ] && return
    sleep 0.05
  done
  echo "COLMAP does not run"
  exit 1
}
kill_process() { # [PROGRAM]. COLMAP's run for less than a second each: the first that is seen.
  local process killed=no
  for _ in $(seq 300); do
    while read -r process _; do
      if kill -9 "$process" 2>/dev/null; then killed=yes; fi
    done < <(processes "$@")
    [ "$killed" = yes ] && return
    sleep 0.05
  done
  echo "${1:-COLMAP} does not run"
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
ctl pose "$scratch/photos" --id killed --detach >/dev/null
ctl job show killed >"$scratch/out"
grep -q "no worker is connected" "$scratch/out"
echo "== a phone with curl alone sends photographs and what to train, and leaves"
curl_train() {
  NERFD_TOKEN=$NERFCTL_TOKEN SAMPLES=300000 "$source/examples/curl/train_photographs.sh" "$web" \
    phone "$scratch/photos"/*.jpg
}
curl_train >"$scratch/out"
grep -q '"reason": *"POSES"' "$scratch/out" || { cat "$scratch/out"; exit 1; }
curl_train >"$scratch/out" # again: the same two
grep -q 'jobs/phone"' "$scratch/out"
[ "$(ctl --output name job ls --kind pose | wc -l)" = 2 ]
start_worker worker-1
await killed state RUNNING 60

echo "== the worker is killed; the job starts again and says so"
await_process
kill -9 "$worker"; wait "$worker" 2>/dev/null || true
await_no_process
start_worker worker-1
await killed state RUNNING 60
echo "== so when COLMAP is killed, and the engine"
kill_process colmap
await killed attempt 3 60
kill_process "nerf-engine pose"
await killed attempt 4 60
await killed state SUCCEEDED 900
[ "$(field killed attempt)" = 4 ]
[ "$(field killed posed)" -ge 7 ]
ctl job fetch killed --out "$scratch/report" >/dev/null
for file in pose.txt pose.json pose.png; do [ -s "$scratch/report/$file" ]; done
ctl --output json worker ls >"$scratch/out"
grep -q '"colmapVersion": *"[0-9]' "$scratch/out"

echo "== the phone's photographs: the server is killed, the training starts by itself all the same"
await phone-poses state RUNNING 60
await_process
kill -9 "$nerfd"; wait "$nerfd" 2>/dev/null || true
start_server "${address##*:}"
await phone-poses state SUCCEEDED 900
ctl job watch phone >/dev/null
ctl job show phone >"$scratch/out"
grep -q "scene: *projects/default/scenes/phone" "$scratch/out"

echo "== its scene trains"
ctl --output json scene show killed >"$scratch/out"
grep -q '"images/' "$scratch/out"
ctl job create killed --samples 300k --watch >/dev/null

echo "== photographs are added to it, and a training on the result starts from its model"
mkdir "$scratch/more"
find "$fox" -name "*.jpg" | sort | sed -n '9,11p' | xargs -I{} cp {} "$scratch/more/"
ctl scene add killed "$scratch/more" --id grown >/dev/null
ctl --output json scene show grown >"$scratch/out"
grep -q '"placement.json"' "$scratch/out"
[ "$(grep -c '"images/' "$scratch/out")" -ge 9 ]
ctl job create grown --samples 50k --watch >/dev/null 2>"$scratch/why"
grep -q "trained on the same capture" "$scratch/why" || { cat "$scratch/why"; exit 1; }

echo "== nerfctl train lets the worker find the poses, and leaves"
ctl --output name train "$scratch/photos" --samples 50k --detach >"$scratch/out"
train=$(sed 's|.*/||' "$scratch/out")
ctl job show "$train" >"$scratch/out"
grep -q "pose job: *projects/default/jobs/p-" "$scratch/out"
second=$(ctl --output name job ls --kind pose --limit 1)
second=${second##*/}
await "$second" state RUNNING 60

echo "== cancel leaves no process"
await_process
ctl job cancel "$second" >/dev/null
await "$second" state CANCELLED 2
await_no_process
for _ in $(seq 50); do
  ctl job show "$train" >"$scratch/out"
  grep -q "was cancelled" "$scratch/out" && break
  sleep 0.1
done
grep -q "FAILED" "$scratch/out" || { echo "a cancelled search was trained on"; exit 1; }

echo "== what cannot be posed ends with the reason"
for i in 1 2 3 4; do cp "$fox/0001.jpg" "$scratch/same/$i.jpg"; done
code=0
ctl pose "$scratch/same" >/dev/null 2>"$scratch/why" || code=$?
[ "$code" = 9 ] || { echo "exit code $code"; cat "$scratch/why"; exit 1; }
grep -q photographs "$scratch/why"

echo "== photographs of one spot end early, and say so"
if command -v ffmpeg >/dev/null; then # a camera that only turns before a picture
  mkdir "$scratch/spot"
  for pitch in -8 0 8; do
    for yaw in -20 -10 0 10 20; do
      view=ih_fov=85:iv_fov=120:h_fov=50:v_fov=40:w=640:h=480:yaw=$yaw:pitch=$pitch
      ffmpeg -v error -i "$fox/0001.jpg" -vf "v360=input=flat:output=flat:$view" -q:v 2 \
        "$scratch/spot/$yaw$pitch.jpg" </dev/null
    done
  done
  code=0
  timeout 180 "$binaries/nerfctl" --server "$address" --progress none pose "$scratch/spot" \
    >/dev/null 2>"$scratch/why" || code=$?
  [ "$code" = 9 ] || { echo "exit code $code"; cat "$scratch/why"; exit 1; }
  grep -q "move between photographs" "$scratch/why"
fi
for _ in $(seq 50); do
  left=$(find "$scratch/worker-1/rooms" -path '*/jobs/*')
  [ -z "$left" ] && break
  sleep 0.1
done
[ -z "$left" ] || { echo "files are left: $left"; exit 1; }
ctl job rm killed "$second" >/dev/null
ctl scene show killed >/dev/null
echo "OK"
