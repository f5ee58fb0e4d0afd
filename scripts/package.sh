#!/usr/bin/env bash
# Makes Debian packages of nerfd, nerf-worker, nerf-engine, nerf-engine-torch, nerfctl and
# python3-nerfd (docs/run/packages.md).
#   scripts/package.sh [BUILD [OUT]]   of the build tree BUILD (build/release, which is built where
#                                      it has no programs) into OUT (build/packages)
# One build tree gives the same bytes each time: dates are $SOURCE_DATE_EPOCH, by default that of
# the commit. $NERF_XZ_LEVEL is xz's level, 6 by default. LibTorch's part is packaged where the
# build has it. Needs dpkg-dev, binutils and protobuf-compiler-grpc; not root.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${1:-$source/build/release}")
out=$(realpath -m "${2:-$source/build/packages}")
fail() { echo "package: $*" >&2; exit 1; }
for tool in dpkg-deb dpkg-shlibdeps dpkg-gencontrol strip protoc grpc_python_plugin; do
  command -v "$tool" >/dev/null ||
    fail "no $tool: install dpkg-dev, binutils and protobuf-compiler-grpc"
done
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2>/dev/null)} ||
  fail "no git history here: set SOURCE_DATE_EPOCH"
export SOURCE_DATE_EPOCH=$epoch LC_ALL=C.UTF-8 TZ=UTC
umask 022

programs=(nerfd nerf-worker nerf-engine nerfctl)
for program in "${programs[@]}"; do
  [ -x "$build/bin/$program" ] && continue
  [ "$build" = "$source/build/release" ] || fail "$build/bin has no $program"
  cmake --preset release -S "$source" -DNERF_BUILD_TESTS=OFF
  cmake --build "$build"
  break
done

# 0.1.0+git20261129.120501.371440b: apt takes a later commit for an upgrade.
version=$(sed -n 's/^project(nerfd VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
if commit=$(git -C "$source" rev-parse --short=7 HEAD 2>/dev/null); then
  committed=$(git -C "$source" log -1 --format=%ct)
  version+=+git$(date -ud "@$committed" +%Y%m%d.%H%M%S).$commit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debian" "$out"
cp "$source/packaging/control" "$work/debian/control"
printf 'nerfd (%s) unstable; urgency=medium\n\n  * What is new: %s\n\n -- %s  %s\n' "$version" \
  "CHANGELOG.md of the sources." "nerfd developers <packages@nerfd.dev>" \
  "$(date -ud "@$epoch" '+%a, %d %b %Y %H:%M:%S +0000')" >"$work/debian/changelog"

# Stages a program as a link to /usr/lib/nerfd/bin: the programs find each other, and libraries in
# ../lib, by their own place.
add_program() { # PACKAGE PROGRAM
  install -D "$build/bin/$2" "$work/$1/usr/lib/nerfd/bin/$2"
  strip --strip-unneeded --remove-section=.comment "$work/$1/usr/lib/nerfd/bin/$2"
  mkdir -p "$work/$1/usr/bin"
  ln -s "../lib/nerfd/bin/$2" "$work/$1/usr/bin/$2"
}
add_library() { # PACKAGE LIBRARY
  install -Dm644 "$build/lib/$2" "$work/$1/usr/lib/nerfd/lib/$2"
  strip --strip-unneeded --remove-section=.comment "$work/$1/usr/lib/nerfd/lib/$2"
}
add_service() { # PACKAGE
  local root=$work/$1 from=$source/packaging script
  install -Dm644 "$from/$1.service" "$root/lib/systemd/system/$1.service"
  install -Dm644 "$from/$1.sysusers" "$root/usr/lib/sysusers.d/$1.conf"
  install -Dm644 "$from/$1.tmpfiles" "$root/usr/lib/tmpfiles.d/$1.conf"
  install -Dm644 "$from/$1.default" "$root/etc/default/$1"
  mkdir -p "$root/DEBIAN"
  echo "/etc/default/$1" >"$root/DEBIAN/conffiles"
  for script in postinst prerm postrm; do
    sed "s/@NAME@/$1/g" "$from/service.$script" >"$root/DEBIAN/$script"
    chmod 755 "$root/DEBIAN/$script"
  done
}
# The help of a program, which must not depend on who builds where.
help_of() { # PROGRAM ARGUMENT...
  env -i HOME=/home/user "$build/bin/$1" "${@:2}" --help | sed "s|$build/bin/|/usr/bin/|g"
}
manual() { # PACKAGE PROGRAM SECTION SUMMARY COMMAND...
  local page=$work/$1/usr/share/man/man$3/$2.$3 command
  mkdir -p "${page%/*}"
  as_roff() { sed 's/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/'; }
  {
    printf '.TH "%s" %s "" "nerfd %s"\n.SH NAME\n%s \\- %s\n' "${2^^}" "$3" "$version" "$2" "$4"
    printf '.SH DESCRIPTION\n.nf\n'
    help_of "$2" | as_roff
    for command in "${@:5}"; do
      printf '.fi\n.SH "%s %s"\n.nf\n' "$2" "$command"
      help_of "$2" "$command" | as_roff
    done
    printf '.fi\n'
  } >"$page"
}

# What a package owes to the policy, its dependencies and checksums; then the file itself.
finish() { # PACKAGE [SHARED_OBJECT...]
  local root=$work/$1 substitutions=$work/$1.substvars doc=$work/$1/usr/share/doc/$1
  mkdir -p "$doc" "$root/DEBIAN"
  cp "$source/packaging/copyright" "$doc/copyright"
  gzip -9nc "$work/debian/changelog" >"$doc/changelog.gz"
  find "$root/usr/share/man" -type f -exec gzip -9n {} + 2>/dev/null || true
  : >"$substitutions"
  if [ $# -gt 1 ]; then
    (cd "$work" && dpkg-shlibdeps -T"$substitutions" "${@:2}" 2>"$work/shlibdeps.log") ||
      { cat "$work/shlibdeps.log" >&2; return 1; }
  fi
  chmod -R u=rwX,go=rX "$root"
  find "$root" -exec touch -hd "@$epoch" {} +
  (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z |
    xargs -0r md5sum) >"$work/md5sums"
  install -m644 "$work/md5sums" "$root/DEBIAN/md5sums"
  (cd "$work" && dpkg-gencontrol -p"$1" -P"$root" -T"$substitutions" -c"debian/control" \
    -l"debian/changelog" -f"$work/files" -n"$1.deb") 2>"$work/gencontrol.log" ||
    { cat "$work/gencontrol.log" >&2; return 1; }
  local name
  name=$1_${version}_$(sed -n 's/^Architecture: //p' "$root/DEBIAN/control").deb
  rm -f "$out/$1"_*.deb  # of an earlier commit
  dpkg-deb --root-owner-group --threads-max=1 -Zxz "-z${NERF_XZ_LEVEL:-6}" --build "$root" \
    "$out/$name" >/dev/null
  made+=("$name")
}

made=()
add_program nerfd nerfd
add_service nerfd
for kind in service timer; do
  install -m644 "$source/packaging/nerfd-backup.$kind" "$work/nerfd/lib/systemd/system"
done
install "$source/packaging/nerfd-backup.sh" "$work/nerfd/usr/lib/nerfd/backup"
manual nerfd nerfd 8 "server of neural radiance fields"
mkdir -p "$work/nerfd/usr/share/nerfd/monitoring"
cp -r "$source"/monitoring/{dashboards,rules,prometheus.yaml} \
  "$work/nerfd/usr/share/nerfd/monitoring"
finish nerfd "$work/nerfd/usr/lib/nerfd/bin/nerfd"

add_program nerf-worker nerf-worker
add_service nerf-worker
install -D "$source/packaging/nerf-worker.token.sh" "$work/nerf-worker/usr/lib/nerfd/worker-token"
install -Dm644 "$source/packaging/gpu.conf" \
  "$work/nerf-worker/usr/share/doc/nerf-worker/examples/gpu.conf"
manual nerf-worker nerf-worker 8 "trains and renders for a server of radiance fields"
finish nerf-worker "$work/nerf-worker/usr/lib/nerfd/bin/nerf-worker"

add_program nerf-engine nerf-engine
objects=("$work/nerf-engine/usr/lib/nerfd/bin/nerf-engine")
for library in libnerf_gloo.so libnerf_nccl.so; do
  [ -e "$build/lib/$library" ] || continue
  add_library nerf-engine "$library"
  objects+=("$work/nerf-engine/usr/lib/nerfd/lib/$library")
done
mapfile -t commands < <(help_of nerf-engine | sed -n '/^Subcommands:/,$s/^  \([a-z]*\) .*/\1/p')
manual nerf-engine nerf-engine 1 "trains and renders radiance fields" "${commands[@]}"
finish nerf-engine "${objects[@]}"

if [ -e "$build/lib/libnerf_autograd.so" ]; then
  add_library nerf-engine-torch libnerf_autograd.so
  finish nerf-engine-torch "$work/nerf-engine-torch/usr/lib/nerfd/lib/libnerf_autograd.so"
fi

add_program nerfctl nerfctl
mkdir -p "$work/nerfctl/usr/share/"{man/man1,bash-completion/completions,nerfd/examples} \
  "$work/nerfctl/usr/share/"{zsh/vendor-completions,fish/vendor_completions.d}
"$build/bin/nerfctl" __man >"$work/nerfctl/usr/share/man/man1/nerfctl.1"
"$build/bin/nerfctl" completion bash >"$work/nerfctl/usr/share/bash-completion/completions/nerfctl"
"$build/bin/nerfctl" completion zsh >"$work/nerfctl/usr/share/zsh/vendor-completions/_nerfctl"
"$build/bin/nerfctl" completion fish \
  >"$work/nerfctl/usr/share/fish/vendor_completions.d/nerfctl.fish"
cp -r "$source/examples/mic" "$work/nerfctl/usr/share/nerfd/examples/mic"
finish nerfctl "$work/nerfctl/usr/lib/nerfd/bin/nerfctl"

python=$work/python3-nerfd/usr/lib/python3/dist-packages
mkdir -p "$python/nerfd-$version.dist-info" "$work/python3-nerfd/DEBIAN"
cp -r "$source/python/nerfd" "$python/nerfd"
find "$python" -name __pycache__ -prune -exec rm -r {} +
/usr/bin/python3 -B "$source/python/generate.py" "$python/nerfd"
printf 'Metadata-Version: 2.1\nName: nerfd\nVersion: %s\n' "$version" \
  >"$python/nerfd-$version.dist-info/METADATA"
install -Dm644 "$source/examples/python/session.py" \
  "$work/python3-nerfd/usr/share/doc/python3-nerfd/examples/session.py"
for script in postinst prerm; do
  install "$source/packaging/python.$script" "$work/python3-nerfd/DEBIAN/$script"
done
finish python3-nerfd

(cd "$out" && sha256sum "${made[@]}" | tee SHA256SUMS)
