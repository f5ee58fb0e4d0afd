#!/usr/bin/env bash
# The token of nerf-worker's unit: users of the files cannot have root read or write other ones.
# Argument: source folder. Exits 77, a visible skip, where it is not root.
set -euo pipefail
source=$1
fail() { echo "FAIL: $*"; exit 1; }
grep -q LoadCredential "$source/packaging/nerf-worker.service" &&
  fail "systemd reads credentials as root, and follows links"
grep -q "^L" "$source/packaging/nerf-worker.tmpfiles" && fail "root's folder has a link of nerfd's"
if [ "$(id -u)" != 0 ] || ! id daemon bin >/dev/null; then
  echo "SKIPPED: not root, or no users daemon and bin"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
mkdir "$scratch"/{etc,server,run}
chown daemon "$scratch/server"  # in nerfd's place
chown bin "$scratch/run"        # in nerf-worker's
give() { # prints what nerf-worker gets
  rm -f "$scratch/run/token"
  sh "$source/packaging/nerf-worker.token.sh" "$scratch/etc/token" "$scratch/server/token" \
    "$scratch/run/token" daemon bin 2>"$scratch/err" || return 1
  [ "$(stat -c '%U %a' "$scratch/run/token")" = "bin 600" ] || fail "the token's file"
  cat "$scratch/run/token"
}
echo hidden >"$scratch/secret"
chmod 600 "$scratch/secret"
! give || fail "there is no token"
echo local >"$scratch/server/token"
chown daemon "$scratch/server/token"
chmod 600 "$scratch/server/token"
[ "$(give)" = local ] || fail "the token of this machine's nerfd: $(cat "$scratch/err")"
ln -s "$scratch/server/token" "$scratch/etc/token"  # as older packages made it
ln -sf "$scratch/secret" "$scratch/server/token"
! give || fail "the user nerfd has root read a file"
rm "$scratch/etc/token"
echo remote >"$scratch/etc/token"
chmod 600 "$scratch/etc/token"
[ "$(give)" = remote ] || fail "the token of a server elsewhere"
# A link in the worker's own folder.
rm "$scratch/run/token"
ln -s "$scratch/secret" "$scratch/run/token"
! sh "$source/packaging/nerf-worker.token.sh" "$scratch/etc/token" "$scratch/server/token" \
  "$scratch/run/token" daemon bin 2>/dev/null || fail "root writes through a link"
[ "$(cat "$scratch/secret")" = hidden ] || fail "root wrote through a link"
echo "worker token: passed"
