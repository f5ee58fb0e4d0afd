#!/usr/bin/env bash
# Sets up, builds and runs every test that a machine without a GPU can run.
#   scripts/test.sh              release build, all tests
#   scripts/test.sh --sanitize   all tests under ASan + UBSan, and the targets without gRPC and LibTorch under TSan
# Tests on real captures run where NERF_TEST_DATA names their folder and are skipped visibly elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

sanitize=no
case "${1:-}" in
  "") ;;
  --sanitize) sanitize=yes ;;
  *) echo "usage: scripts/test.sh [--sanitize]" >&2; exit 2 ;;
esac

scripts/setup.sh --test
jobs=$(nproc)

# What a preset builds, which tests it runs and with which options of the sanitizers stands in CMakePresets.json.
run() { # PRESET [CMAKE_FLAG...]
  local preset=$1
  cmake --preset "$@" -DNERF_BUILD_TESTS=ON >"build/configure-$preset.log" 2>&1 ||
    { cat "build/configure-$preset.log" >&2; return 1; }
  # One test at a time: many start servers and measure time limits.
  cmake --build --preset "$preset" -j "$jobs" && ctest --preset "$preset"
}

# As run; also fails on any report of a sanitizer: a test may not look at how a process that it started ended.
run_sanitized() { # PRESET [CMAKE_FLAG...]
  local reports=build/$1/reports passed=yes
  rm -rf "$reports"
  mkdir -p "$reports"
  run "$@" || passed=no
  tail -n +1 "$reports"/* 2>/dev/null && passed=no
  [ "$passed" = yes ]
}

mkdir -p build
if [ "$sanitize" = no ]; then
  run release -DNERF_ENABLE_TORCH=ON
else
  run_sanitized tsan
  run_sanitized asan -DNERF_ENABLE_TORCH=ON
fi
