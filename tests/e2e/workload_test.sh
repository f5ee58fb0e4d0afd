#!/usr/bin/env bash
# Clients under random kills of nerfd, agents and engines, and a checker of what they saw (workload.py). Then the
# checker itself: with each seeded bug it has to find violations.
# Arguments: source folder, folder of the binaries, the tests' engine, seconds. Exits 77, a visible skip, where Python
# lacks gRPC or protoc its plugin.
set -euo pipefail
source=$1 binaries=$2 engine=$3 seconds=${4:-20}
python=/usr/bin/python3  # the one that Debian's packages are for
if ! "$python" -c 'import google.protobuf, grpc' 2>/dev/null; then
  echo "SKIPPED: no python3-grpcio or python3-protobuf"
  exit 77
fi
if ! plugin=$(command -v grpc_python_plugin) || ! command -v protoc >/dev/null; then
  echo "SKIPPED: no protoc or no grpc_python_plugin"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/stubs"
protoc -I"$source/proto" -I"$source/third_party/googleapis" --plugin=protoc-gen-grpc="$plugin" \
  --python_out="$scratch/stubs" --grpc_out="$scratch/stubs" \
  "$source"/third_party/googleapis/google/*/*.proto "$source"/proto/nerf/v1/*.proto
export PYTHONPATH="$scratch/stubs" PYTHONDONTWRITEBYTECODE=1

run() { # FOLDER FLAGS...
  mkdir "$scratch/$1"
  "$python" "$source/tests/e2e/workload.py" --binaries "$binaries" --engine "$engine" --folder "$scratch/$1" "${@:2}"
}
run kills --seconds "$seconds" --seed "${SEED:-1}"
for bug in lose-job forget-requests skip-event; do
  run "$bug" --bug "$bug" --seconds 5 --kills 3 --seed 2
done
