#!/usr/bin/env bash
# Runs the Python examples against the built nerfd: a client made of the protos alone uploads, trains,
# watches, renders and downloads, and the model reader reads the result.
# Arguments: source folder, folder of the binaries. Exits 77, a visible skip, where Python lacks gRPC
# or numpy, or protoc its plugin.
set -euo pipefail
source=$1
binaries=$2
. "$source/tests/e2e/start_nerfd.sh"
. "$source/tests/e2e/python_stubs.sh"
if ! "$python" -c 'import numpy' 2>/dev/null; then
  echo "SKIPPED: no python3-numpy"
  exit 77
fi

mkdir "$scratch/server" "$scratch/views"
start_nerfd "$binaries"
address=$(served_address grpc)

"$python" "$source/examples/python/train_and_render.py" "$source/examples/mic" --server "$address" --samples 1e6 \
  --out "$scratch/views" | tee "$scratch/output"
grep -q '^SUCCEEDED 100%' "$scratch/output"
# 1 M samples reach 21 dB.
psnr=$(sed -n 's/.* PSNR \([0-9]*\)\..*/\1/p' "$scratch/output")
[ "$psnr" -ge 18 ] || { echo "PSNR of $psnr dB"; exit 1; }
"$python" - "$scratch/views/view.png" <<'END'
import sys
picture = open(sys.argv[1], "rb").read()
assert picture[:8] == b"\x89PNG\r\n\x1a\n" and picture[16:24] == bytes([0, 0, 0, 200] * 2), picture[:32]
END
# The microphone is at (0, 0, 0.6), and half a unit below is air.
density() {
  "$python" "$source/examples/python/read_model.py" "$scratch/views/model.safetensors" "$@" |
    sed -n 's/^density \([0-9.e+-]*\) per.*/\1/p'
}
"$python" -c 'import sys; solid, air = map(float, sys.argv[1:]); assert solid > 10 * air > 0, (solid, air)' \
  "$(density 0 0 0.6)" "$(density 0 0 0.1)"

# A wrong request ends with the reason that the server gave.
if "$python" "$source/examples/python/train_and_render.py" "$source/examples/mic" --server "$address" --samples 0.5 \
  2>"$scratch/refused"; then
  echo "half a sample was accepted as a budget"
  exit 1
fi
grep -q '^INVALID_ARGUMENT FIELD_INVALID: ' "$scratch/refused"
