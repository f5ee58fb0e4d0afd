#!/usr/bin/env bash
# Sets up, builds and runs every test that a machine without a GPU can run.
#   scripts/test.sh              release build, all tests
#   scripts/test.sh --deploy     what takes minutes more: images in containers, nerfd with programs
#                                of the commit before
#   scripts/test.sh --sanitize   all tests under ASan and UBSan, those labeled tsan under TSan
# Tests on real captures run if NERF_TEST_DATA names their folder; else they are skipped visibly.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=plain
case "${1:-}" in
  "") ;;
  --sanitize) mode=sanitize ;;
  --deploy) mode=deploy ;;
  *) echo "usage: scripts/test.sh [--deploy|--sanitize]" >&2; exit 2 ;;
esac

setup=(--test)
[ "$mode" = deploy ] && setup=(--deploy)
scripts/setup.sh "${setup[@]}"
jobs=$(nproc)
# At a time: many start servers and measure time limits. Those that compute count as two.
tests=$((jobs < 2 ? 2 : 4))

# Builds a preset and runs its tests; CMakePresets.json has the targets and sanitizer options.
run() { # PRESET [CMAKE_FLAG...]
  local preset=$1
  cmake --preset "$@" -DNERF_BUILD_TESTS=ON >"build/configure-$preset.log" 2>&1 ||
    { cat "build/configure-$preset.log" >&2; return 1; }
  cmake --build --preset "$preset" -j "$jobs" && ctest --preset "$preset" -j "$tests"
}

# Like run, but also fails on any report of a sanitizer: a test may not notice how a process that it
# started ended.
run_sanitized() { # PRESET [CMAKE_FLAG...]
  local reports=build/$1/reports passed=yes
  rm -rf "$reports"
  mkdir -p "$reports"
  run "$@" || passed=no
  # ASan warns at the first switch between the CUDA emulation's fibers; they announce each switch.
  sed -i "/WARNING: ASan doesn't fully support makecontext/d" "$reports"/* 2>/dev/null || true
  find "$reports" -type f -empty -delete
  tail -n +1 "$reports"/* 2>/dev/null && passed=no
  [ "$passed" = yes ]
}

# Compiles and links the CUDA sources where nvcc is found, for every shipped architecture, so that
# they keep compiling on machines without a GPU. Tests on a device are skipped visibly there.
compile_cuda() {
  local nvcc
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  if [ ! -x "$nvcc" ]; then
    echo "test: SKIPPED compiling the CUDA sources: no nvcc (emulation runs their kernels below)"
    return
  fi
  echo "test: compiling and linking the CUDA sources for sm_80, sm_90 and PTX with $nvcc"
  cmake --preset cuda -B build/cuda-check -DCMAKE_CUDA_COMPILER="$nvcc" \
    -DNERF_BUILD_SERVICE=OFF -DNERF_ENABLE_TORCH=OFF -DNERF_BUILD_TESTS=ON \
    >build/configure-cuda.log 2>&1 ||
    { cat build/configure-cuda.log >&2; return 1; }
  cmake --build build/cuda-check -j "$jobs" \
    --target nerf-engine gpu_tests cuda_bench
  ctest --test-dir build/cuda-check --output-on-failure -L gpu
}

# clang's thread safety analysis over every product source: minutes, or with ccache seconds for what
# has not changed. It needs the headers that the build generated.
check_thread_safety() {
  local code=0
  tests/check_thread_safety.py build/release || code=$?
  [ "$code" = 0 ] || [ "$code" = 77 ]
}

# What takes minutes more: the images, built offline and run, the laptop overlay with them, nerfd
# with the programs of the commit before, and the packages in a bare Debian. Exit 77 is a visible
# skip.
check_deploy() {
  cmake --preset release >build/configure-release.log 2>&1 ||
    { cat build/configure-release.log >&2; return 1; }
  cmake --build --preset release -j "$jobs" --target nerfd nerf-worker nerf-engine nerfctl
  local code test folder
  for test in images laptop previous_commit; do
    code=0
    folder=$PWD/build/images
    [ "$test" != previous_commit ] || folder=$PWD/build/previous_commit
    "tests/deploy/${test}_test.sh" "$PWD" build/release/bin "$folder" || code=$?
    [ "$code" = 0 ] || [ "$code" = 77 ] || return 1
  done
  code=0
  tests/deploy/packages_test.sh "$PWD" "$PWD/build/release" "$PWD/build/images" || code=$?
  [ "$code" = 0 ] || [ "$code" = 77 ]
}

mkdir -p build
case "$mode" in
  plain)
    compile_cuda
    run release -DNERF_ENABLE_TORCH=ON -DNERF_WERROR=ON
    check_thread_safety
    ;;
  deploy)
    check_deploy
    ;;
  sanitize)
    tests=$((tests / 2))  # all compute
    run_sanitized tsan
    run_sanitized asan -DNERF_ENABLE_TORCH=ON
    ;;
esac
