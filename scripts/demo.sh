#!/usr/bin/env bash
# From a bare Debian 12 machine to novel views: installs what is missing, builds the four binaries,
# starts nerfd, trains examples/mic on the CPU through the server, and renders it.
#   scripts/demo.sh [OUTPUT_FOLDER]     default: demo-output
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-demo-output}

scripts/setup.sh
mkdir -p build

# Reads the builder's lines and prints, every 10 s, how many steps are done and about how long the
# others take.
show_progress() {
  local start=$SECONDS next=0 line='' n_done=0 n_all=0 status
  while true; do
    status=0
    IFS= read -r -t 2 line || status=$?
    if [ "$status" -gt 0 ] && [ "$status" -le 128 ]; then break; fi
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      n_done=${BASH_REMATCH[1]} n_all=${BASH_REMATCH[2]}
    fi
    local seconds=$((SECONDS - start))
    if [ "$n_done" -gt 0 ] && [ "$seconds" -ge "$next" ]; then
      next=$((seconds + 10))
      local left=$((seconds * (n_all - n_done) / n_done))
      printf 'demo: building: %d of %d steps, %d:%02d, about %d:%02d left\n' "$n_done" "$n_all" \
        $((seconds / 60)) $((seconds % 60)) $((left / 60)) $((left % 60))
    fi
  done
}

echo "demo: building"
# A first build goes without tests and LibTorch; a later one keeps its options.
options=()
[ -f build/release/CMakeCache.txt ] || options=(-DNERF_BUILD_TESTS=OFF -DNERF_ENABLE_TORCH=OFF)
cmake --preset release "${options[@]}" >build/configure-release.log 2>&1 ||
  { cat build/configure-release.log >&2; exit 1; }
cmake --build --preset release -j "$(nproc)" --target nerfd nerf-worker nerf-engine nerfctl 2>&1 |
  tee build/build-release.log | show_progress ||
  { tail -n 40 build/build-release.log >&2; exit 1; }
bin=$PWD/build/release/bin

scratch=$(mktemp -d)
server_pid=
stop() {
  if [ -n "$server_pid" ] && kill -0 "$server_pid" 2>/dev/null; then
    kill -TERM "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap stop EXIT

echo "demo: starting nerfd"
"$bin/nerfd" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --web-listen 127.0.0.1:0 \
  --shutdown-delay 0s --data-dir "$scratch/data" >"$scratch/nerfd.log" 2>&1 &
server_pid=$!
for _ in $(seq 100); do
  [ -s "$scratch/data/nerfd.ports" ] && break
  kill -0 "$server_pid" 2>/dev/null || { cat "$scratch/nerfd.log" >&2; exit 1; }
  sleep 0.1
done
if ! [ -s "$scratch/data/nerfd.ports" ]; then
  echo "demo: nerfd did not start within 10 s:" >&2
  cat "$scratch/nerfd.log" >&2
  exit 1
fi
NERFCTL_SERVER=$(sed -n 's/.*"grpc":"\([^"]*\)".*/\1/p' "$scratch/data/nerfd.ports")
# No hints: they would name a server that ends with this script.
export NERFCTL_SERVER NERFCTL_NO_HINTS=true
# Its worker connects a moment later.
for _ in $(seq 100); do
  "$bin/nerfctl" worker ls 2>/dev/null | grep -q idle && break
  sleep 0.1
done

echo "demo: training examples/mic"
"$bin/nerfctl" train examples/mic --samples 40M --background white --id demo
"$bin/nerfctl" model promote demo --id demo
mkdir -p "$out"
"$bin/nerfctl" render --model demo --orbit 9 --width 400 --height 400 --channels rgb,depth --sheet \
  --out "$out"
"$bin/nerfctl" model download demo --out "$out/model.safetensors"
"$bin/nerf-engine" eval "$out/model.safetensors" examples/mic --background white |
  tee "$out/psnr.txt" | tail -n 1
echo "demo: novel views in $out/sheet.png, depth in $out/depth_0000.png, the model in" \
  "$out/model.safetensors"
echo "demo: the programs are in build/release/bin; for instance"
echo "  build/release/bin/nerf-engine render $out/model.safetensors --orbit 20 --out $out/more"
echo "  build/release/bin/nerfd    # a server to keep, and a job for it:"
echo "  build/release/bin/nerfctl train examples/mic --samples 40M --background white"
