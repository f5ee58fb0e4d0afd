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

run() { # PRESET
  local preset=$1
  cmake --preset "$preset" -DNERF_BUILD_TESTS=ON >"build/configure-$preset.log" 2>&1 ||
    { cat "build/configure-$preset.log" >&2; return 1; }
  cmake --build --preset "$preset" -j "$jobs"
  tests "$preset"
}

# One test at a time: many start servers and measure time limits.
tests() { # PRESET
  ctest --test-dir "build/$1" --output-on-failure
}

mkdir -p build
if [ "$sanitize" = no ]; then
  cmake --preset release -DNERF_BUILD_TESTS=ON -DNERF_ENABLE_TORCH=ON >build/configure-release.log 2>&1 ||
    { cat build/configure-release.log >&2; exit 1; }
  cmake --build --preset release -j "$jobs"
  tests release
else
  # Leaks at exit inside Debian's gRPC and LibTorch are not ours to mend; everything else stops the run.
  export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
  export UBSAN_OPTIONS=print_stacktrace=1
  run asan
  run tsan
fi
