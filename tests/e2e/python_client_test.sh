#!/usr/bin/env bash
# Runs the Python package against the built nerfd: its tests, the comparison of its README with
# fewer settings, samples and pictures, and the example session, which uploads, trains, watches,
# renders and downloads; the model reader reads the result.
# Arguments: source folder, folder of the binaries. Exits 77, a visible skip, where Python lacks
# gRPC, numpy or Pillow, or protoc its plugin.
set -euo pipefail
source=$1
binaries=$2
. "$source/tests/e2e/start_nerfd.sh"
python=/usr/bin/python3  # the one that Debian's packages are for
if ! "$python" -c 'import google.protobuf, grpc, numpy, PIL' 2>/dev/null; then
  echo "SKIPPED: no python3-grpcio, python3-protobuf, python3-numpy or python3-pil"
  exit 77
fi
if ! command -v grpc_python_plugin >/dev/null || ! command -v protoc >/dev/null; then
  echo "SKIPPED: no protoc or no grpc_python_plugin"
  exit 77
fi
export PYTHONDONTWRITEBYTECODE=1
mkdir "$scratch/server" "$scratch/views" "$scratch/python"
cp -r "$source/python/nerfd" "$scratch/python"
"$python" "$source/python/generate.py" "$scratch/python/nerfd"
export PYTHONPATH="$scratch/python"
start_nerfd "$binaries"
NERFCTL_SERVER=$(served_address grpc)
"$python" "$source/tests/e2e/python_client.py" "$NERFCTL_SERVER" "$source/examples/mic"

export NERFCTL_SERVER
sed -n '/^import itertools$/,/^```$/{/^```$/!p}' "$source/python/README.md" |
  sed 's/samples=1e6/steps=120/; s/(0.003, 0.01, /(/; s/(15, 17)/(15,)/
       s/"best.ply"/"best.ply", resolution=32/' >"$scratch/compare.py"
mkdir "$scratch/examples"
cp -r "$source/examples/mic" "$scratch/examples"
"$python" - "$scratch/examples/mic" <<'END'
import json, pathlib, sys
for split, every in (("train", 4), ("test", 10)):
    path = pathlib.Path(sys.argv[1], f"transforms_{split}.json")
    content = json.loads(path.read_text())
    content["frames"] = content["frames"][::every]
    path.write_text(json.dumps(content))
END
(cd "$scratch" && "$python" compare.py) | tee "$scratch/output"
[ "$(grep -c '^learning_rate=.*dB$' "$scratch/output")" = 2 ]
[ "$(tail -n 1 "$scratch/output")" = best.ply ]
[ -s "$scratch/best.ply" ]

"$python" "$source/examples/python/session.py" "$source/examples/mic" "$scratch/views" |
  tee "$scratch/output"
grep -q '^SUCCEEDED  100%' "$scratch/output"
# 4 M samples reach 32 dB.
for line in 'test views: PSNR' 'test/r_0.png: PSNR'; do
  psnr=$(sed -n "s|^$line \([0-9]*\)\..*|\1|p" "$scratch/output")
  [ "$psnr" -ge 25 ] || { echo "PSNR of $psnr dB"; exit 1; }
done
"$python" - "$scratch/views/view.png" <<'END'
import sys
picture = open(sys.argv[1], "rb").read()
assert picture[16:24] == bytes([0, 0, 0, 200] * 2), picture[:32]
END
# The microphone is at (0, 0, 0.6), and half a unit below is air.
density() {
  "$python" "$source/examples/python/read_model.py" "$scratch/views/model.safetensors" "$@" |
    sed -n 's/^density \([0-9.e+-]*\) per.*/\1/p'
}
"$python" -c 'import sys
solid, air = map(float, sys.argv[1:])
assert solid > 10 * air > 0, (solid, air)' "$(density 0 0 0.6)" "$(density 0 0 0.1)"
