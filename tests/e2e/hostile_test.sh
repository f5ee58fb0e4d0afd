#!/usr/bin/env bash
# Clients that try to take more than their share (hostile.py), each for a few seconds.
# Arguments: source folder, folder of the binaries, the tests' engine, then flags of hostile.py. Exits 77, a visible
# skip, where Python lacks gRPC or protoc its plugin.
set -euo pipefail
source=$1 binaries=$2 engine=$3
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
mkdir "$scratch/stubs" "$scratch/run"
protoc -I"$source/proto" -I"$source/third_party/googleapis" --plugin=protoc-gen-grpc="$plugin" \
  --python_out="$scratch/stubs" --grpc_out="$scratch/stubs" \
  "$source"/third_party/googleapis/google/*/*.proto "$source"/proto/nerf/v1/*.proto
export PYTHONPATH="$scratch/stubs" PYTHONDONTWRITEBYTECODE=1
"$python" "$source/tests/e2e/hostile.py" --binaries "$binaries" --engine "$engine" --folder "$scratch/run" "${@:4}"
