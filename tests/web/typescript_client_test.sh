#!/usr/bin/env bash
# The example in TypeScript against the built nerfd. Arguments: source folder, folder of the binaries, a folder to build in.
# Exits 77, a visible skip, without Node >= 20.19, npm or protoc.
set -euo pipefail
source=$1
binaries=$2
work=$3
. "$source/tests/web/need_node.sh"
if ! command -v protoc >/dev/null; then
  echo "SKIPPED: no protoc"
  exit 77
fi
mkdir -p "$work/examples/typescript"
ln -sfn "$source/proto" "$work/proto"
ln -sfn "$source/third_party" "$work/third_party"
cd "$work/examples/typescript"
cp "$source"/examples/typescript/{package.json,package-lock.json,tsconfig.json,train_and_render.ts,.npmrc} .
install_packages .
npm run --silent build

. "$source/tests/e2e/start_nerfd.sh"
start_nerfd "$binaries"
url=http://$(served_address web)
npm start --silent -- "$source/examples/mic" --server "$url" --samples 1e6 --out "$scratch" | tee "$scratch/output"
grep -q '^SUCCEEDED 100%' "$scratch/output"
psnr=$(sed -n 's/.* PSNR \([0-9]*\)\..*/\1/p' "$scratch/output")
[ "$psnr" -ge 18 ] || { echo "PSNR of $psnr dB"; exit 1; }
[ "$(head -c 4 "$scratch/view.png" | tail -c 3)" = PNG ]
[ "$(stat -c %s "$scratch/model.safetensors")" -gt 1000000 ]
if npm start --silent -- "$source/examples/mic" --server "$url" --samples 0.5 2>"$scratch/refused"; then
  echo "half a sample was accepted as a budget"
  exit 1
fi
grep -q '^InvalidArgument FIELD_INVALID: ' "$scratch/refused"
