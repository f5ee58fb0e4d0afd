#!/usr/bin/env bash
# Runs a script of faults, of this folder or of tests/bench.
# Arguments: source folder, folder of the binaries, the script in tests/, its other flags. Exits 77, a visible skip,
# where Python lacks gRPC or protoc its plugin.
set -euo pipefail
source=$1 binaries=$2 script=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
. "$source/tests/e2e/python_stubs.sh"
mkdir "$scratch/run"
"$python" "$source/tests/$script" --binaries "$binaries" --folder "$scratch/run" "${@:4}"
