#!/bin/sh
# Takes a backup of this machine's nerfd, reads all of it, and removes the oldest ones that it took:
# nerfd-backup.service. Arguments, of tests: the data folder.
set -eu
data=${1:-/var/lib/nerfd}
kept=${NERFD_BACKUPS_KEPT:-7}
case $kept in
  '' | *[!0-9]* | 0*) echo "NERFD_BACKUPS_KEPT: '$kept' is no number above 0" >&2; exit 2 ;;
esac
command -v nerfctl >/dev/null || { echo "there is no nerfctl: apt install nerfctl" >&2; exit 1; }
server=unix:$data/nerfd.sock  # beside TLS
[ -S "$data/nerfd.sock" ] || server=$(sed -n 's/.*"grpc":"\([^"]*\)".*/\1/p' "$data/nerfd.ports")
id=daily-$(date -u +%Y%m%d-%H%M%S)
nerfctl --server "$server" --token-file "$data/admin.token" backup --id "$id"
nerfd --check-backup "$data/backups/$id"
# Only now: what is damaged is no reason to remove what was whole.
find "$data/backups" -mindepth 1 -maxdepth 1 -type d -name 'daily-????????-??????' | sort |
  head -n "-$kept" |
  while read -r old; do
    rm -r "$old"
    echo "removed $old"
  done
