#!/usr/bin/env bash
# Render jobs with the built binaries: frames have the bytes of `nerf-engine render`, also when the worker
# and nerfd are killed on the way, and ffprobe reads the movie.
# Arguments: source folder, folder of the binaries. Exits 77, a visible skip, where there is no ffmpeg.
set -euo pipefail
source=$1
binaries=$2
for program in ffmpeg ffprobe; do
  if ! command -v "$program" >/dev/null; then
    echo "SKIPPED: no $program"
    exit 77
  fi
done

scratch=$(mktemp -d)
nerfd= worker= second=
end() {
  for process in $worker $second $nerfd; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$scratch"
}
trap end EXIT

start_nerfd() {
  rm -f "$scratch/server/nerfd.ports"
  "$binaries/nerfd" --data-dir "$scratch/server" --listen "${1:-127.0.0.1:0}" --metrics-listen 127.0.0.1:0 \
    --web-listen none --no-local-worker --lease-ttl 5s 2>>"$scratch/nerfd.log" &
  nerfd=$!
  for _ in $(seq 200); do
    [ -e "$scratch/server/nerfd.ports" ] && break
    sleep 0.1
  done
  address=$(sed -n 's/.*"grpc":"\([^"]*\)".*/\1/p' "$scratch/server/nerfd.ports")
  NERFCTL_TOKEN=$(cat "$scratch/server/admin.token")
  export NERFCTL_TOKEN
}
start_worker() {
  "$binaries/nerf-worker" --server "$address" --cache-dir "$scratch/$1" \
    --token-file "$scratch/server/worker.token" 2>>"$scratch/$1.log" &
  worker=$!
}
ctl() { "$binaries/nerfctl" --server "$address" --progress none "$@"; }
field() {
  ctl --output json job show "$1" | sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" | head -1
}

mkdir "$scratch/server"
start_nerfd
start_worker worker-1
ctl train "$source/examples/mic" --samples 1M --seed 1 >/dev/null
job=$(ctl --output name job ls --limit 1)
ctl model promote "${job##*/}" --id mic >/dev/null
ctl model download mic --out "$scratch/mic.safetensors" >/dev/null
ctl job fetch "${job##*/}" --out "$scratch/trained.safetensors" >/dev/null
cmp "$scratch/trained.safetensors" "$scratch/mic.safetensors"

echo "== a movie and its frames"
ctl job render mic --id film --frames 24 --width 101 --height 80 --images \
  --out "$scratch/film" >"$scratch/files"
[ "$(grep -c png "$scratch/files")" = 24 ]
stream=$(ffprobe -v error -select_streams v:0 -count_frames -show_entries \
  stream=codec_name,width,height,pix_fmt,nb_read_frames -of csv=p=0 "$scratch/film/movie.mp4")
[ "$stream" = "h264,102,80,yuv420p,24" ] || { echo "ffprobe says $stream"; exit 1; }

echo "== the bytes of nerf-engine render"
"$binaries/nerf-engine" render "$scratch/mic.safetensors" --orbit 24 --width 101 --height 80 --out "$scratch/engine" >/dev/null
for i in 00000 00011 00023; do
  cmp "$scratch/film/frame_${i}_RGB.png" "$(ls "$scratch"/engine/*.png | sed -n "$((10#$i + 1))p")"
done

echo "== frames as EXR"
ctl job render mic --id exr --frames 2 --width 40 --height 30 --path orbit --no-movie \
  --channels rgba,depth --format exr --out "$scratch/exr" >/dev/null
"$binaries/nerf-engine" render "$scratch/mic.safetensors" --orbit 2 --width 40 --height 30 \
  --channels rgba,depth --format exr --out "$scratch/exr-engine" >/dev/null 2>&1
for i in 0 1; do
  cmp "$scratch/exr/frame_0000${i}_RGBA.exr" "$scratch/exr-engine/rgba_000$i.exr"
  cmp "$scratch/exr/frame_0000${i}_DEPTH.exr" "$scratch/exr-engine/depth_000$i.exr"
done
ctl job render mic --id rgbaz --frames 2 --width 40 --height 30 --path orbit --no-movie \
  --channels rgbaz --format exr --out "$scratch/exr" >/dev/null
"$binaries/nerf-engine" render "$scratch/mic.safetensors" --orbit 2 --width 40 --height 30 \
  --channels rgbaz --format exr --out "$scratch/exr-engine" >/dev/null 2>&1
for i in 0 1; do
  cmp "$scratch/exr/frame_0000${i}_RGBAZ.exr" "$scratch/exr-engine/rgbaz_000$i.exr"
done
code=0
ctl job render mic --frames 2 --format exr 2>/dev/null || code=$?
[ "$code" = 2 ] || { echo "a movie of EXR: exit code $code"; exit 1; }

echo "== two workers share a job"
first=$worker
start_worker worker-b
second=$worker worker=$first
for _ in $(seq 300); do
  [ "$(ctl --output json worker ls | grep -o '"IDLE"' | wc -l)" = 2 ] && break
  sleep 0.1
done
ctl job render mic --id shared --frames 24 --width 101 --height 80 --no-movie >/dev/null
ctl --timeout 120s job fetch shared --out "$scratch/shared" >/dev/null
for image in "$scratch"/shared/*.png; do cmp "$image" "$scratch/film/$(basename "$image")"; done
for log in worker-1 worker-b; do
  grep -q 'job granted.*jobs/shared' "$scratch/$log.log" || { echo "$log held no part"; exit 1; }
done
kill "$second"; wait "$second" 2>/dev/null || true
second=

echo "== the worker is killed, then nerfd"
ctl job render mic --id killed --frames 24 --width 101 --height 80 --no-movie >/dev/null
for _ in $(seq 300); do
  [ "$(field killed framesDone)" -ge 3 ] && break
  sleep 0.1
done
kill -9 "$worker"; wait "$worker" 2>/dev/null || true
kill -9 "$nerfd"; wait "$nerfd" 2>/dev/null || true
start_nerfd "$address"
[ "$(field killed framesDone)" -ge 3 ]
start_worker worker-2
ctl --timeout 120s job fetch killed --out "$scratch/killed" >/dev/null
for image in "$scratch"/killed/*.png; do cmp "$image" "$scratch/film/$(basename "$image")"; done

echo "== cancel and remove"
ctl job render mic --id long --frames 2000 --width 400 --height 400 --no-movie >/dev/null
for _ in $(seq 300); do
  [ "$(field long framesDone)" -ge 1 ] && break
  sleep 0.1
done
code=0
ctl job pause long 2>"$scratch/why" || code=$?
[ "$code" = 7 ] || { echo "pause of a render job: exit code $code"; exit 1; }
grep -q "long is a render job: it cannot be paused" "$scratch/why"
ctl job cancel long >/dev/null
for _ in $(seq 50); do
  [ "$(field long state)" = CANCELLED ] && break
  sleep 0.1
done
[ "$(field long state)" = CANCELLED ]
ctl job rm long killed shared exr rgbaz film >/dev/null
[ -z "$(ctl --output name job ls --kind render)" ]
echo "OK"
