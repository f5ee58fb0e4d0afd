#!/usr/bin/env bash
# Clients under random kills of nerfd, agents and engines, and a checker of what they saw (workload.py). Then the
# checker itself: with each seeded bug it has to find violations.
# Arguments: source folder, folder of the binaries, the tests' engine, seconds, kills at most. Exits 77, a visible
# skip, where Python lacks gRPC or protoc its plugin.
set -euo pipefail
source=$1 binaries=$2 engine=$3 seconds=${4:-20} kills=${5:-100000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
. "$source/tests/e2e/python_stubs.sh"

run() { # FOLDER FLAGS...
  mkdir "$scratch/$1"
  "$python" "$source/tests/e2e/workload.py" --binaries "$binaries" --engine "$engine" --folder "$scratch/$1" "${@:2}"
}
# Runs side by side: they wait more than they compute.
started=()
finish() {
  local code=0 pid
  for pid in "${started[@]}"; do wait "$pid" || code=1; done
  started=()
  return "$code"
}
run kills --seconds "$seconds" --kills "$kills" --seed "${SEED:-1}" &
started+=($!)
if [ -x "${NERF_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}/initdb" ]; then
  chmod 711 "$scratch" # PostgreSQL does not run as root
  run postgres --postgres --seconds "$seconds" --kills "$kills" --seed "${SEED:-1}" &
  started+=($!)
else
  echo "PostgreSQL is not installed: the queue is tried in SQLite alone"
fi
finish
for bug in lose-job lose-model forget-requests skip-event succeed-twice; do
  run "$bug" --bug "$bug" --seconds 30 --kills 3 --seed 2 &
  started+=($!)
done
finish
