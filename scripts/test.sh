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

# The CUDA sources compile and link wherever nvcc is found, so that they cannot rot on a machine without a GPU. One architecture
# and its PTX keep it short; preset cuda has them all. Tests on a device are skipped visibly where there is none.
compile_cuda() {
  local nvcc
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  if [ ! -x "$nvcc" ]; then
    echo "test: SKIPPED compiling the CUDA sources: no nvcc (the host emulation has run their kernels)"
    return
  fi
  echo "test: compiling and linking the CUDA sources for sm_90 with $nvcc"
  cmake --preset cuda -B build/cuda-check -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=90 \
    -DNERF_BUILD_SERVICE=OFF -DNERF_ENABLE_TORCH=OFF -DNERF_BUILD_TESTS=ON >build/configure-cuda.log 2>&1 ||
    { cat build/configure-cuda.log >&2; return 1; }
  cmake --build build/cuda-check -j "$jobs" --target nerf-engine engine_cuda_device_test engine_cuda_step_device_test
  ctest --test-dir build/cuda-check --output-on-failure -L gpu
}

mkdir -p build
if [ "$sanitize" = no ]; then
  cmake --preset release -DNERF_BUILD_TESTS=ON -DNERF_ENABLE_TORCH=ON >build/configure-release.log 2>&1 ||
    { cat build/configure-release.log >&2; exit 1; }
  cmake --build --preset release -j "$jobs"
  tests release
  compile_cuda
else
  # Leaks at exit inside Debian's gRPC and LibTorch are not ours to mend; everything else stops the run.
  export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
  export UBSAN_OPTIONS=print_stacktrace=1
  run asan
  run tsan
fi
