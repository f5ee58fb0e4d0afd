#!/usr/bin/env bash
# Gathers what a Debian 12 machine with a GPU and no network lacks to build and measure the engine:
# Debian's packages of its few libraries, unpacked, and a scene, in one folder of less than 60 MiB.
# tests/bench/gpu_report --bundle DIR uses it there.
#   scripts/gpu_bundle.sh DIR [SCENE]     SCENE: a data set; default $NERF_TEST_DATA/lego_400
# The machine must have a checkout of this repository, the CUDA toolkit, g++, CMake (3.25 or later)
# and Ninja or Make. DIR is new, empty or an earlier bundle, which is replaced.
set -euo pipefail

fail() {
  echo "gpu_bundle: $1" >&2
  exit 2
}
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "$0"
    exit 0
    ;;
  -*) fail "unknown option $1 (--help)" ;;
esac
if [ $# -lt 1 ] || [ $# -gt 2 ]; then fail "usage: scripts/gpu_bundle.sh DIR [SCENE]"; fi
source=$(cd "$(dirname "$0")/.." && pwd)
bundle=$1
scene=${2:-${NERF_TEST_DATA:-}/lego_400}
[ -d "$scene" ] || fail "no scene at $scene: name one, or set NERF_TEST_DATA"
[ -n "$(find "$scene" -maxdepth 1 \( -name 'transforms*.json' -o -name sparse -o -name colmap \
  \))" ] ||
  fail "$scene is no data set: it has neither transforms*.json nor a COLMAP model"
if [ -e "$bundle" ]; then
  [ -d "$bundle" ] || fail "$bundle is no folder"
  [ -z "$(ls -A "$bundle")" ] || [ -f "$bundle/PACKAGES" ] ||
    fail "$bundle is neither empty nor a bundle: it would be overwritten"
  case "$(realpath "$scene")/" in
    "$(realpath "$bundle")"/*) fail "the scene $scene lies in $bundle, which is replaced" ;;
  esac
fi
if [ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ]; then
  echo "gpu_bundle: needs apt-get and dpkg of a Debian 12 on amd64" >&2
  exit 1
fi

packages=(
  libabsl20220623 libabsl-dev libcli11-dev libfmt9 libfmt-dev libhwy1 libhwy-dev
  libmeshoptimizer2d libmeshoptimizer-dev
  libpng16-16 libpng-dev libprotobuf32 libprotobuf-lite32 libprotobuf-dev
  libprotoc32 protobuf-compiler libspdlog1.10 libspdlog-dev libsqlite3-0 libsqlite3-dev
  libssl3 libssl-dev libturbojpeg0 libturbojpeg0-dev nlohmann-json3-dev zlib1g zlib1g-dev
  libutf8proc2 libutf8proc-dev libwebp7 libwebp-dev libzstd1 libzstd-dev
  pkgconf pkgconf-bin libpkgconf3
  googletest libgmock-dev libgtest-dev
)

mkdir -p "$bundle"
: >"$bundle/PACKAGES"
bundle=$(cd "$bundle" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
apt-cache show libhwy-dev >/dev/null 2>&1 || apt-get update -qq
(cd "$scratch" && apt-get -o APT::Sandbox::User=root download -qq "${packages[@]}")
rm -rf "$bundle/root"
mkdir "$bundle/root"
for package in "$scratch"/*.deb; do dpkg-deb -x "$package" "$bundle/root"; done
rm -rf "$bundle/root/usr/src" "$bundle/root/usr/share/"{doc,man,lintian}
# Some packages install to /lib, which is /usr/lib on newer systems.
if [ -d "$bundle/root/lib" ]; then
  cp -a "$bundle/root/lib/." "$bundle/root/usr/lib/"
  rm -rf "$bundle/root/lib"
fi
libraries=$bundle/root/usr/lib/x86_64-linux-gnu
# Links to absolute paths are made relative, so that they stay inside the bundle.
find "$libraries" -type l | while read -r link; do
  target=$(readlink "$link")
  case "$target" in /*) ln -sfn "$(basename "$target")" "$link" ;; esac
done
# Static libraries that have a shared twin are not needed.
find "$libraries" -name '*.a' | while read -r archive; do
  [ -e "${archive%.a}.so" ] && rm "$archive"
done || true

rm -rf "$bundle/scene"
cp -rL "$scene" "$bundle/scene"
chmod -R u+w "$bundle/scene"
basename "$scene" >"$bundle/SCENE"
git -C "$source" rev-parse --short HEAD >"$bundle/COMMIT" 2>/dev/null ||
  echo unknown >"$bundle/COMMIT"
(cd "$scratch" && ls ./*.deb | sed 's|^./||') >"$bundle/PACKAGES"

size=$(du -sm --apparent-size "$bundle" | cut -f1)
n_packages=$(wc -l <"$bundle/PACKAGES")
echo "gpu_bundle: $bundle, $size MiB: $n_packages packages and $(cat "$bundle/SCENE")"
if [ "$size" -ge 60 ]; then
  echo "gpu_bundle: that is more than 60 MiB" >&2
  exit 1
fi
