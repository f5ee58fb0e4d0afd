# Sourced by tests of clients. Makes the folder $scratch; start_nerfd runs a nerfd with its data in
# $scratch/server. Both are removed at the end of the script.
scratch=$(mktemp -d)
nerfd=
end() {
  if [ -n "$nerfd" ]; then
    kill "$nerfd" 2>/dev/null || true
    wait "$nerfd" || true
  fi
  rm -rf "$scratch"
}
trap end EXIT

start_nerfd() { # BIN_DIR [FLAG...]
  local binaries=$1
  shift
  "$binaries/nerfd" --data-dir "$scratch/server" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
    --web-listen 127.0.0.1:0 "$@" 2>"$scratch/nerfd.log" &
  nerfd=$!
  for _ in $(seq 200); do
    [ -e "$scratch/server/nerfd.ports" ] && break
    sleep 0.1
  done
  NERFCTL_TOKEN=$(cat "$scratch/server/admin.token")
  export NERFCTL_TOKEN
}

served_address() { # grpc or web
  sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$scratch/server/nerfd.ports"
}
