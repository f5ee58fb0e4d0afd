#!/usr/bin/env bash
# Boots the systemd of a root folder in namespaces of its own, without a network but loopback:
# boot_root.sh ROOT. The process is replaced by unshare, whose only child is the new init; killing
# it ends all. Needs root.
set -euo pipefail
group=nerfd-packages-test-$$
if [ -d /sys/fs/cgroup/systemd ]; then
  groups=(/sys/fs/cgroup/systemd)
  [ ! -d /sys/fs/cgroup/unified ] || groups+=(/sys/fs/cgroup/unified)
else
  groups=(/sys/fs/cgroup)
fi
for each in "${groups[@]}"; do
  mkdir "$each/$group"
  echo $$ >"$each/$group/cgroup.procs"
done
export ROOT=$1
exec unshare --mount --pid --fork --kill-child=SIGKILL --cgroup --uts --ipc --net bash -euc '
mount --make-rprivate /
mount --bind "$ROOT" "$ROOT"
cd "$ROOT"
mount -t proc proc proc
mount -t sysfs sysfs sys
if [ -d /sys/fs/cgroup/systemd ]; then
  mount -t tmpfs tmpfs sys/fs/cgroup
  mkdir sys/fs/cgroup/unified sys/fs/cgroup/systemd
  mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
else
  mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do
  touch "dev/$node"
  mount --bind "/dev/$node" "dev/$node"
done
mkdir dev/pts dev/shm run/old
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
touch dev/console
pivot_root . run/old
umount -l /run/old
mount --make-rshared /
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
  --log-target=console'
