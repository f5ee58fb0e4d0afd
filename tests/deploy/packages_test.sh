#!/usr/bin/env bash
# Packages of a build tree: same bytes from two runs, what is in them, lintian, the units' sandbox.
#   packages_test.sh SOURCE BUILD         seconds
#   packages_test.sh SOURCE BUILD WORK    also installs them in a bare Debian 12 below WORK, boots
#                                         its systemd in namespaces, trains by nerfctl and Python,
#                                         and purges them: minutes, for scripts/test.sh --deploy.
#                                         Needs root, mmdebstrap and Debian's archive.
# Exits 77, a visible skip, where something that it needs is missing.
set -euo pipefail
source=$1 build=$2 work=${3:-}
fail() { echo "FAIL: $*"; exit 1; }
for tool in dpkg-shlibdeps protoc grpc_python_plugin; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool"; exit 77; }
done
scratch=$(mktemp -d)
booted=
end() {
  if [ -n "$booted" ]; then
    kill -9 "$booted" 2>/dev/null || true
    wait "$booted" 2>/dev/null || true
    sleep 1  # the kernel still counts what was killed
    find /sys/fs/cgroup -depth -type d -path "*/nerfd-packages-test-$booted*" -exec rmdir {} + \
      2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap end EXIT

# The second run as somebody else, who builds a copy elsewhere. Packing well takes a minute.
export NERF_XZ_LEVEL=0
"$source/scripts/package.sh" "$build" "$scratch/first" >/dev/null
mkdir "$scratch/copy" "$scratch/copy/bin" "$scratch/copy/lib"
cp "$build"/bin/{nerfd,nerf-worker,nerf-engine,nerfctl} "$scratch/copy/bin"
cp "$build"/lib/libnerf_{gloo,autograd,nccl}.so "$scratch/copy/lib" 2>/dev/null || true
(umask 077 && HOME=/nowhere TZ=Asia/Tokyo LC_ALL=C "$source/scripts/package.sh" "$scratch/copy" \
  "$scratch/second" >/dev/null)
cd "$scratch/first"
diff SHA256SUMS ../second/SHA256SUMS || fail "two runs made different packages"
sha256sum --quiet -c SHA256SUMS
ls -l ./*.deb | awk '{print $5, $9}'

has() { # PACKAGE FILE...
  local file
  for file in "${@:2}"; do
    grep -qxF -e "./$file" -e "./$file/" "$scratch/$1.list" || fail "$1 has no $file"
  done
}
for package in ./*.deb; do # unpacked once
  name=$(basename "${package%%_*}")
  dpkg-deb --fsys-tarfile "$package" >"$scratch/$name.tar"
  tar -tf "$scratch/$name.tar" >"$scratch/$name.list"
  grep -aqF -e "$build/" -e "$scratch" "$scratch/$name.tar" &&
    fail "$package names a folder of this machine"
  [ -z "$(tar -tvf "$scratch/$name.tar" | awk '$2 != "root/root"')" ] || fail "$package: an owner"
done
field() { dpkg-deb -f "$1"_*.deb "$2"; }
has nerfd usr/bin/nerfd usr/lib/nerfd/bin/nerfd lib/systemd/system/nerfd.service \
  lib/systemd/system/nerfd-backup.{service,timer} usr/lib/nerfd/backup \
  usr/lib/sysusers.d/nerfd.conf usr/share/man/man8/nerfd.8.gz etc/default/nerfd \
  usr/share/nerfd/monitoring/{rules/nerfd.alerts.yaml,dashboards/overview.json,prometheus.yaml}
has nerf-worker usr/bin/nerf-worker lib/systemd/system/nerf-worker.service \
  usr/lib/nerfd/worker-token
has nerf-engine usr/bin/nerf-engine usr/share/man/man1/nerf-engine.1.gz
has nerfctl usr/bin/nerfctl usr/share/man/man1/nerfctl.1.gz usr/share/nerfd/examples/mic/train \
  usr/share/bash-completion/completions/nerfctl
has python3-nerfd usr/lib/python3/dist-packages/nerfd/{client,aio}.py \
  usr/lib/python3/dist-packages/nerfd/{py.typed,_proto/nerf/v1/job_service_pb2.py}
# Of a later commit, the version is later, which apt goes by.
if seconds=$(git -C "$source" log -1 --format=%ct 2>/dev/null); then
  now=$(field nerfd Version)
  earlier=${now%%+*}+git$(date -ud "@$((seconds - 1))" +%Y%m%d.%H%M%S).fffffff
  dpkg --compare-versions "$now" gt "$earlier" || fail "$now is no upgrade of $earlier"
fi
# One version of each package is left in the folder: `apt install ./*.deb` takes all that it has.
touch nerfd_0.1.0_amd64.deb
"$source/scripts/package.sh" "$build" "$PWD" >/dev/null
[ "$(ls nerfd_*.deb | wc -l)" = 1 ] || fail "packages of an earlier build stay"
for package in nerf-worker nerf-engine; do
  [[ "$(field "$package" Recommends)" == *colmap*ffmpeg* ]] || fail "$package: COLMAP or ffmpeg"
  [[ "$(field "$package" Depends)" != *torch* ]] || fail "$package needs LibTorch"
done
if [ -e "$build/lib/libnerf_autograd.so" ]; then
  has nerf-engine-torch usr/lib/nerfd/lib/libnerf_autograd.so
  [[ "$(field nerf-engine-torch Depends)" == *libtorch* ]] || fail "LibTorch is no dependency"
fi

for unit in nerfd nerfd-backup nerf-worker; do
  if ! command -v systemd-analyze >/dev/null; then echo "SKIPPED: no systemd-analyze"; break; fi
  systemd-analyze security --offline=true --threshold=30 "$source/packaging/$unit.service" |
    tail -n 1
done
if command -v lintian >/dev/null; then
  lintian --fail-on error --allow-root ./*.deb || fail "lintian has errors"
else
  echo "SKIPPED: no lintian"
fi
[ -n "$work" ] || { echo "packages: passed"; exit; }

# A bare Debian 12.
command -v mmdebstrap >/dev/null || { echo "SKIPPED: no mmdebstrap"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "SKIPPED: not root"; exit 77; }
mkdir -p "$work"
[ -s "$work/base.tar" ] || mmdebstrap --variant=minbase bookworm "$work/base.tar"
root=$scratch/root
mkdir "$root"
tar -xf "$work/base.tar" -C "$root" --exclude='./dev/*'
mkdir "$root/debs"
cp ./*.deb "$root/debs"
rm -f "$root"/debs/nerf-engine-torch_*  # LibTorch is 200 MB
cp /etc/resolv.conf "$root/etc/resolv.conf"
path=/usr/sbin:/usr/bin:/sbin:/bin
unshare --mount --pid --fork --mount-proc="$root/proc" sh -ec "
  mount --bind /dev '$root/dev'
  chroot '$root' env PATH=$path DEBIAN_FRONTEND=noninteractive sh -ec '
    apt-get update -qq
    apt-get install -y --no-install-recommends /debs/*.deb'" >"$scratch/install.log" 2>&1 ||
  { tail -n 20 "$scratch/install.log"; fail "apt-get install"; }
for user in nerfd nerf-worker; do
  grep -q "^$user:" "$root/etc/passwd" || fail "no user $user"
done

"$source/tests/deploy/boot_root.sh" "$root" >"$scratch/boot.log" 2>&1 </dev/null &
booted=$!
inside() {
  local init
  init=$(ps -o pid= --ppid "$booted" | tr -d ' ')
  [ -n "$init" ] || return 1
  nsenter -t "$init" -m -p -n -u -i -C env -i PATH=$path HOME=/root \
    DEBIAN_FRONTEND=noninteractive "$@"
}
for _ in $(seq 60); do
  kill -0 "$booted" 2>/dev/null || break
  [[ "$(inside systemctl is-system-running 2>&1)" =~ running|degraded ]] && break
  sleep 1
done
if ! [[ "$(inside systemctl is-system-running 2>&1)" =~ running|degraded ]]; then
  tail -n 5 "$scratch/boot.log"
  echo "SKIPPED: systemd does not start in namespaces here"
  exit 77
fi
# Both units are enabled; the worker comes when it has the server's token.
inside sh -ec '
  systemctl start nerfd
  nerfctl login </var/lib/nerfd/admin.token
  for i in $(seq 60); do nerfctl worker ls | grep -q cpu && break; sleep 1; done
  systemctl is-active nerf-worker
  for unit in nerfd nerf-worker; do
    systemd-analyze security --threshold=30 $unit | tail -n 1
    [ "$(stat -c %U /proc/$(systemctl show -P MainPID $unit))" = $unit ]
  done
  journalctl -u nerf-worker | grep -o "sandbox=.*" | head -n 1
  nerfctl train /usr/share/nerfd/examples/mic --samples 1M --background white --id mic
  mkdir /root/out
  python3 /usr/share/doc/python3-nerfd/examples/session.py /usr/share/nerfd/examples/mic /root/out
  nerf-engine inspect /root/out/model.safetensors >/dev/null
  systemctl restart nerfd
  nerfctl job show mic | grep -q SUCCEEDED
  systemctl start nerfd-backup
  nerfd --list-backups --data-dir /var/lib/nerfd | grep -q daily-
  systemctl enable --now nerfd-backup.timer
  systemctl list-timers nerfd-backup.timer | grep -q "1 timers"
' || { inside journalctl --no-pager -n 30; fail "the services do not do their work"; }

# A wrong setting ends the start at once, with its reason in the journal.
inside sh -ec '
  echo NERFD_LISTEN=nowhere >>/etc/default/nerfd
  ! systemctl restart nerfd 2>/dev/null
  journalctl -u nerfd | grep -q "listen: .nowhere. is not HOST:PORT"
  systemctl stop nerfd
' || fail "a wrong setting"

inside apt-get purge -y nerfd nerf-worker nerf-engine nerfctl python3-nerfd >"$scratch/purge.log" \
  2>&1 || { tail -n 20 "$scratch/purge.log"; fail "apt-get purge"; }
rm -rf "$root"/root/{out,.config/nerfd,.local} "$root/debs"
left=$(cd "$root" && find . -xdev -name '*nerf*' -not -path './var/lib/nerfd/*')
[ "$left" = ./var/lib/nerfd ] || fail "purge left $left"
[ -s "$root/var/lib/nerfd/queue.db" ] || fail "purge took the data"
echo "packages: passed, purge leaves /var/lib/nerfd"
