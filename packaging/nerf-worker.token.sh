#!/bin/sh
# Gives nerf-worker its token: the file in /etc/nerfd, or else that of this machine's nerfd. Root
# follows no link to it, and reads and writes as the files' users, who could link to any file.
#   worker-token FILE SERVERS_FILE TO_FILE [SERVERS_USER WORKERS_USER]
set -eu
file=$1 servers_file=$2 to_file=$3 server=${4:-nerfd} worker=${5:-nerf-worker}
as() {
  user=$1
  shift
  setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"
}
if [ -f "$file" ] && ! [ -L "$file" ]; then
  token=$(cat "$file")
else
  token=$(as "$server" cat "$servers_file")
fi
echo "$token" | as "$worker" sh -c 'umask 077; cat >"$0"' "$to_file"
