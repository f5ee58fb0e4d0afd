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
  # ASan says at the first switch between the CUDA emulation's fibers that it may go astray; they tell it of each switch.
  sed -i "/WARNING: ASan doesn't fully support makecontext/d" "$reports"/* 2>/dev/null || true
  find "$reports" -type f -empty -delete
  tail -n +1 "$reports"/* 2>/dev/null && passed=no
  [ "$passed" = yes ]
}

# The CUDA sources compile and link wherever nvcc is found, for every architecture that is shipped, so that they cannot rot on a
# machine without a GPU. Tests on a device are skipped visibly where there is none.
compile_cuda() {
  local nvcc
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  if [ ! -x "$nvcc" ]; then
    echo "test: SKIPPED compiling the CUDA sources: no nvcc (the host emulation below runs their kernels)"
    return
  fi
  echo "test: compiling and linking the CUDA sources for sm_80, sm_90 and PTX with $nvcc"
  cmake --preset cuda -B build/cuda-check -DCMAKE_CUDA_COMPILER="$nvcc" \
    -DNERF_BUILD_SERVICE=OFF -DNERF_ENABLE_TORCH=OFF -DNERF_BUILD_TESTS=ON >build/configure-cuda.log 2>&1 ||
    { cat build/configure-cuda.log >&2; return 1; }
  cmake --build build/cuda-check -j "$jobs" --target nerf-engine engine_cuda_device_test engine_cuda_step_device_test \
    cuda_bench
  ctest --test-dir build/cuda-check --output-on-failure -L gpu
}

# clang's thread safety analysis over every product source: syntax only, a minute or two. It reads the headers that the build has
# generated.
check_thread_safety() {
  local code=0
  tests/check_thread_safety.py build/release || code=$?
  [ "$code" = 0 ] || [ "$code" = 77 ]
}

mkdir -p build
if [ "$sanitize" = no ]; then
  compile_cuda
  run release -DNERF_ENABLE_TORCH=ON -DNERF_WERROR=ON
  check_thread_safety
else
  run_sanitized tsan
  run_sanitized asan -DNERF_ENABLE_TORCH=ON
fi
