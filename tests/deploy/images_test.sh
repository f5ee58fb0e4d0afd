#!/usr/bin/env bash
# Builds the images offline, twice, and runs them as a cluster would: read-only, without
# capabilities, as user 65532. images_test.sh SOURCE_DIR BIN_DIR WORK_DIR. Minutes; run by
# scripts/test.sh --deploy. Needs root, buildah, podman, runc and mmdebstrap (exit 77 without).
set -euo pipefail
source_dir=$1 bin_dir=$2 work=$3
. "$source_dir/tests/deploy/offline_images.sh"

inspect() { buildah "${storage[@]}" inspect --format "$2" "$1"; }
size() { "${pod[@]}" image inspect --format '{{.Size}}' "localhost/$1"; }
build server nerfd-server --no-cache
build server nerfd-server-again --no-cache
build worker nerfd-worker --layers

# The image with CUDA, as far as it goes without a toolkit: a script stands in for nvcc, another for the build, and in the
# last stage the worker's engine for the one with CUDA.
standin=$work/standin
rm -rf "$standin" && mkdir -p "$standin"/source/scripts "$standin"/toolkit/bin "$standin"/engine
printf '#!/bin/sh\n' >"$standin/toolkit/bin/nvcc"
cat >"$standin/source/scripts/setup.sh" <<'END'
#!/bin/sh
cat >/usr/local/bin/cmake <<'CMAKE'
#!/bin/sh
[ "$1" = --build ] || { [ -x "$CUDACXX" ] && mkdir -p build/cuda/bin && cp "$CUDACXX" build/cuda/bin/nerf-engine; }
CMAKE
chmod +x /usr/local/bin/cmake
END
chmod +x "$standin/toolkit/bin/nvcc" "$standin/source/scripts/setup.sh"
cp "$bin_dir/nerf-engine" "$standin/engine"
cp -r "$source_dir/docker" "$standin/source"
source_dir=$standin/source build cuda-binaries nerfd-cuda --build-context "cuda-toolkit=$standin/toolkit"
build worker-cuda nerfd-worker-cuda --layers --build-context "cuda-binaries=$standin/engine"
[ "$(inspect nerfd-server '{{.FromImageDigest}}')" = "$(inspect nerfd-server-again '{{.FromImageDigest}}')" ] ||
  fail "two builds from one base have two digests"
added=$((($(size nerfd-server) - $(size nerfd-base)) / 1000000))
echo "server image: digest $(inspect nerfd-server '{{.FromImageDigest}}'), adds $added MB"
[ "$added" -le 100 ] || fail "the server adds $added MB, more than 100"

for program in "server nerfd" "server nerfctl" "worker nerf-worker" "worker nerf-engine" "worker-cuda nerf-worker" \
  "worker-cuda nerf-engine"; do
  set -- $program
  "${pod[@]}" run --rm --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --network host --entrypoint "$2" \
    "localhost/nerfd-$1" --version >/dev/null || fail "$2 does not start in its image"
done

token=$work/worker.token
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$token"
chmod 644 "$token"
rm -rf "$work/data" "$work/cache" && mkdir -p "$work/data" "$work/cache" && chown 65532:65532 "$work/data" "$work/cache"
trap '"${pod[@]}" rm -f nerfd-test worker-test >/dev/null 2>&1 || true' EXIT
# Low limits: a runtime without all capabilities may lower them, not raise them.
safe=(--ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --read-only --cap-drop all --security-opt no-new-privileges 
  --network host -v "$token:/token:ro" -d)
"${pod[@]}" run "${safe[@]}" --replace --name nerfd-test -v "$work/data:/data" localhost/nerfd-server \
  --listen=127.0.0.1:0 --metrics-listen=127.0.0.1:0 --worker-token-file=/token >/dev/null
for _ in $(seq 100); do [ -s "$work/data/nerfd.ports" ] && break; sleep 0.1; done
NERFCTL_SERVER=$(grep -oP '"grpc":"\K[^"]+' "$work/data/nerfd.ports") || fail "the server did not start"
NERFCTL_TOKEN=$(cat "$work/data/admin.token")
export NERFCTL_SERVER NERFCTL_TOKEN
run_worker() {
  "${pod[@]}" run "${safe[@]}" --replace --name worker-test --tmpfs /tmp -v "$work/cache:/cache" \
    localhost/nerfd-worker --server="$NERFCTL_SERVER" --token-file=/token >/dev/null
}
run_worker
"$bin_dir/nerfctl" train "$source_dir/examples/mic" --samples 16M --background white --id mic --detach
step() { "$bin_dir/nerfctl" job show mic --json | grep -oP '"step":\s*\K[0-9]+' | head -1 || echo 0; }
for _ in $(seq 300); do [ "$(step)" -ge 200 ] && break; sleep 0.2; done
before=$(step)
"${pod[@]}" exec worker-test nerf-worker --alive --cache-dir=/cache || fail "the probe finds no worker"
# SIGTERM: the worker commits a checkpoint of the step that it reached.
"${pod[@]}" stop -t 60 worker-test >/dev/null
"${pod[@]}" rm worker-test >/dev/null
kept=$("$bin_dir/nerfctl" job show mic --json | grep -oP '"step":\s*\K[0-9]+' | sort -n | tail -1)
[ "$kept" -ge "$before" ] || fail "stopped at step $before, kept step $kept"
echo "SIGTERM after step $before kept step $kept"
run_worker
psnr=$("$bin_dir/nerfctl" job watch mic 2>&1 | grep -oP 'PSNR \K[0-9.]+' | tail -1)
echo "mic in containers: PSNR $psnr dB"
awk -v p="$psnr" 'BEGIN {exit !(p >= 32)}' || fail "PSNR $psnr is below 32"
"${pod[@]}" stop -t 60 nerfd-test worker-test >/dev/null
echo "images: passed"
