#!/usr/bin/env bash
# What nerfd-backup.service runs, with a running nerfd: takes, checks, keeps so many.
#   backup_script_test.sh SOURCE BIN_DIR
set -euo pipefail
source=$1 binaries=$2
fail() { echo "FAIL: $*"; exit 1; }
. "$source/tests/e2e/start_nerfd.sh"
export PATH=$binaries:$PATH HOME=$scratch
script=$source/packaging/nerfd-backup.sh
start_nerfd "$binaries" --no-local-worker
unset NERFCTL_TOKEN
nerfctl --server "$(served_address grpc)" --token-file "$scratch/server/admin.token" \
  scene create "$source/examples/mic" >/dev/null 2>&1
take() {
  NERFD_BACKUPS_KEPT=${1:-2} "$script" "$scratch/server" >"$scratch/out" 2>&1
}
must() { "$@" || fail "$* ends with: $(cat "$scratch/out")"; }
ids() { nerfd --list-backups --data-dir "$scratch/server" | awk '{print $3}'; }

# Old ones, and one that somebody took by hand.
must take
grep -q "is whole: [0-9]* blobs, [0-9.]* MB read and compared" "$scratch/out" ||
  fail "it is not read: $(cat "$scratch/out")"
first=$(ids)
cp -al "$scratch/server/backups/$first" "$scratch/server/backups/daily-20200101-000000"
cp -al "$scratch/server/backups/$first" "$scratch/server/backups/by-hand"
sleep 1
must take
[ "$(ids | grep -c daily)" = 2 ] || fail "it keeps $(ids)"
ids | grep -qx by-hand || fail "it takes a backup that is not its own"
! ids | grep -q 20200101 || fail "it keeps the oldest"
grep -q "removed .*daily-20200101-000000" "$scratch/out" || fail "it does not say what it removes"

# A damaged one ends it before anything is removed.
sleep 1
cat >"$scratch/nerfd" <<END
#!/bin/sh
blob=\$(find "$scratch/server/backups" -path '*daily*/blobs/*' -type f -size +1k |
  sort | tail -n 1)
size=\$(stat -c %s "\$blob")
rm "\$blob" && head -c "\$size" /dev/zero >"\$blob"
exec "$binaries/nerfd" "\$@"
END
chmod +x "$scratch/nerfd"
if PATH=$scratch:$PATH take 1; then fail "a damaged backup counts as one"; fi
grep -q "is damaged: its content has the digest" "$scratch/out" || fail "$(cat "$scratch/out")"
[ "$(ids | grep -c daily)" = 3 ] || fail "it removes whole ones after a damaged one: $(ids)"

for wrong in 0 -1 x 07; do
  if NERFD_BACKUPS_KEPT=$wrong "$script" "$scratch/server" >"$scratch/out" 2>&1; then
    fail "it takes NERFD_BACKUPS_KEPT=$wrong"
  fi
  grep -q "NERFD_BACKUPS_KEPT: '$wrong'" "$scratch/out" || fail "$wrong: $(cat "$scratch/out")"
done
nerfd --list-backups --data-dir "$scratch/none" 2>"$scratch/out" && fail "it lists a folder of none"
grep -q "there is no data folder $scratch/none" "$scratch/out" || fail "$(cat "$scratch/out")"
[ ! -e "$scratch/none" ] || fail "it makes the folder"
nerfd --check-backup "$scratch" 2>"$scratch/out" && fail "a folder that is no backup"
grep -q "$scratch is no backup: it has no queue.db" "$scratch/out" || fail "$(cat "$scratch/out")"
echo "backups: passed"
