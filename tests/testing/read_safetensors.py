"""Reads a checkpoint or model with nothing but the format's description: python3 read_safetensors.py FILE"""
import hashlib, json, struct, sys

SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "U8": 1}

def read(path):
    content = open(path, "rb").read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length].decode("utf-8"))
    payload = content[8 + length :]
    metadata = header.pop("__metadata__", {})
    end = 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = tensor["data_offsets"]
        n_bytes = SIZES[tensor["dtype"]]
        for size in tensor["shape"]:
            n_bytes *= size
        assert begin == end and stop - begin == n_bytes, f"{name}: wrong place or size"
        digest = hashlib.sha256(payload[begin:stop]).hexdigest()
        assert digest == metadata["sha256." + name], f"{name}: digest differs"
        end = stop
    assert end == len(payload), "bytes behind the last tensor"
    return header, metadata

if __name__ == "__main__":
    tensors, metadata = read(sys.argv[1])
    for name, tensor in sorted(tensors.items()):
        print(name, tensor["dtype"], tensor["shape"])
    print(f"{len(tensors)} tensors, {len(metadata)} strings, kind {metadata.get('kind')}, digests match")
