#!/usr/bin/env bash
# Installs what a Debian 12 machine lacks to build nerfd (default), to test it (--test), or to test
# its images, too (--deploy).
# Idempotent: it asks dpkg first and calls apt only for missing packages, which needs root or sudo.
set -euo pipefail

build_packages=(
  build-essential cmake ninja-build pkg-config git ca-certificates ccache mold
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libhwy-dev libpng-dev libturbojpeg0-dev nlohmann-json3-dev
  libcli11-dev libfmt-dev libspdlog-dev libssl-dev libsqlite3-dev prometheus-cpp-dev
  libboost1.81-dev libchafa-dev libglib2.0-dev libgloo-dev libseccomp-dev libjose-dev
  libjansson-dev
)
# LibTorch is for the tests and `--method ngp-autograd` only; libopenblas0 replaces the slow
# reference BLAS.
test_packages=(
  libtorch-dev libopenblas0 libgtest-dev libgmock-dev libbenchmark-dev
  clang clang-format codespell python3 python3-numpy python3-grpcio python3-protobuf curl
  chromium ffmpeg
)
# The tests of the web page also want Node >= 20.19 with npm. Debian 12's is older, so they are
# skipped unless you install one.
deploy_packages=(buildah podman runc mmdebstrap iptables)

wanted=("${build_packages[@]}")
with_tests=no
case "${1:-}" in
  "") ;;
  --test) with_tests=yes; wanted+=("${test_packages[@]}") ;;
  --deploy) with_tests=yes; wanted+=("${test_packages[@]}" "${deploy_packages[@]}") ;;
  *) echo "usage: scripts/setup.sh [--test|--deploy]" >&2; exit 2 ;;
esac

if ! command -v apt-get >/dev/null; then
  echo "setup: this is not a Debian-like system; install by hand: ${wanted[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null
else
  echo "setup: nothing to install"
fi

# promtool is unpacked from Debian's prometheus package, not installed: the package would start a
# server on port 9090.
if [ "$with_tests" = yes ] && ! command -v promtool >/dev/null; then
  tools="$(cd "$(dirname "$0")/.." && pwd)/build/tools"
  if [ ! -x "$tools/usr/bin/promtool" ]; then
    echo "setup: unpacking promtool into build/tools"
    mkdir -p "$tools"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    chmod 755 "$scratch"
    [ -n "$(apt-cache policy prometheus 2>/dev/null | grep 'Candidate: [0-9]' || true)" ] || "${as_root[@]}" apt-get update -qq
    (cd "$scratch" && apt-get -o APT::Sandbox::User=root download -qq prometheus && dpkg-deb -x prometheus_*.deb "$tools")
  fi
fi

# Recommended, not needed: nerf-engine pose runs them. Their tests are skipped without.
for program in colmap ffmpeg; do
  command -v "$program" >/dev/null || echo "setup: to find camera poses, also: apt-get install $program"
done
