#!/usr/bin/env bash
# Clients that try to take more than their share (hostile.py), each for a few seconds.
# Arguments: source folder, folder of the binaries, the tests' engine, then flags of hostile.py. Exits 77, a visible
# skip, where Python lacks gRPC or protoc its plugin.
set -euo pipefail
source=$1 binaries=$2 engine=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
. "$source/tests/e2e/python_stubs.sh"
mkdir "$scratch/run"
"$python" "$source/tests/e2e/hostile.py" --binaries "$binaries" --engine "$engine" --folder "$scratch/run" "${@:4}"
