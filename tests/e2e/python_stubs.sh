# Source this with $source, the source folder, and $scratch, a folder of this run: makes Python's gRPC stubs there and sets
# $python. Exits 77, a visible skip, where Python lacks gRPC or protoc its plugin.
python=/usr/bin/python3  # the one that Debian's packages are for
if ! "$python" -c 'import google.protobuf, grpc' 2>/dev/null; then
  echo "SKIPPED: no python3-grpcio or python3-protobuf"
  exit 77
fi
if ! plugin=$(command -v grpc_python_plugin) || ! command -v protoc >/dev/null; then
  echo "SKIPPED: no protoc or no grpc_python_plugin"
  exit 77
fi
mkdir "$scratch/stubs"
protoc -I"$source/proto" -I"$source/third_party/googleapis" --plugin=protoc-gen-grpc="$plugin" \
  --python_out="$scratch/stubs" --grpc_out="$scratch/stubs" \
  "$source"/third_party/googleapis/google/*/*.proto "$source"/proto/nerf/v1/*.proto \
  "$source/proto/nerf/internal/store.proto"
export PYTHONPATH="$scratch/stubs" PYTHONDONTWRITEBYTECODE=1
