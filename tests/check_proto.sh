#!/usr/bin/env bash
# Checks proto/ with buf. Exits 77, a visible skip, where npx cannot fetch @bufbuild/buf.
#   check_proto.sh SOURCE            style
#   check_proto.sh SOURCE wire       programs built from proto/wire_baseline.binpb.gz, in binary or
#                                    JSON, still understand today's messages
#   check_proto.sh SOURCE baseline   writes that file anew: at a release, nowhere else
set -euo pipefail
source=$(realpath "$1")
mode=${2:-style}
cd "$source/proto"
if ! command -v npx >/dev/null; then
  echo "SKIPPED: no npx"
  exit 77
fi
if ! timeout 120 npx --yes @bufbuild/buf@1 --version >/dev/null 2>&1; then
  echo "SKIPPED: npx cannot fetch @bufbuild/buf"
  exit 77
fi
# third_party is a second module for the imports; only proto/ is checked.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r . "$scratch/proto"
cp -r ../third_party/googleapis "$scratch/googleapis"
printf 'version: v1\nlint:\n  ignore: [google]\n' >"$scratch/googleapis/buf.yaml"
printf 'version: v1\ndirectories: [proto, googleapis]\n' >"$scratch/buf.work.yaml"
cd "$scratch"
buf() { npx --yes @bufbuild/buf@1 "$@"; }
baseline=$source/proto/wire_baseline.binpb.gz
image() { buf build --exclude-source-info -o "$1"; }
fits() { buf breaking "$1" --against "$baseline" --config proto/buf.yaml; }

case "$mode" in
  style) buf lint ;;
  baseline) image "$baseline" ;;
  wire)
    image now.binpb
    fits now.binpb
    # The check can fail: each of these would break a client or a worker.
    break_wire() { # WHAT FILE SED_SCRIPT
      sed -i "$3" "proto/nerf/v1/$2"
      image broken.binpb
      if fits broken.binpb >/dev/null 2>&1; then
        echo "FAIL: not noticed: $1"
        exit 1
      fi
      cp "$source/proto/nerf/v1/$2" "proto/nerf/v1/$2"
    }
    break_wire "a field of another number" worker_service.proto \
      's/uint64 lease_epoch = 2;/uint64 lease_epoch = 98;/'
    break_wire "a field of another type" training_job.proto \
      's/  uint32 seed = /  string seed = /'
    break_wire "a field of another name, which JSON has" job_service.proto \
      's/string display_name = /string shown_name = /'
    break_wire "a method that is gone" job_service.proto '/rpc ListJobMetrics(/d'
    ;;
  *) echo "usage: check_proto.sh SOURCE [wire|baseline]" >&2; exit 2 ;;
esac
