#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// One file of a scene.
struct SceneFileRecord {
  std::string path;  // relative, checked by CheckManifest
  BlobRef blob;

  bool operator==(const SceneFileRecord&) const = default;
};

// What a block of the heap takes beside its bytes, about.
inline constexpr uint64_t kHeapBlockBytes = 16;

// Memory of the list.
inline uint64_t BytesOf(const std::vector<SceneFileRecord>& files) {
  uint64_t bytes = 0;
  for (const SceneFileRecord& file : files) {
    bytes += sizeof(file) + file.path.size() + file.blob.sha256.size() + 2 * kHeapBlockBytes;
  }
  return bytes;
}

// A capture set: a manifest of blobs. Never changes after creation.
struct SceneRecord {
  ResourceKey key;
  uint64_t create_sequence = 0;  // order of creation in this store, from 1
  std::string display_name;
  std::string request_id;
  std::vector<SceneFileRecord> files;  // sorted by path
  uint64_t byte_size = 0;              // sum over the files
  absl::Time create_time = absl::InfinitePast();

  bool operator==(const SceneRecord&) const = default;
};

// Memory of the scene.
inline uint64_t BytesOf(const SceneRecord& scene) {
  constexpr uint64_t kOthers = 512;  // short strings, and the nodes of the maps that lead to it
  return sizeof(scene) + kOthers + BytesOf(scene.files);
}

}  // namespace nerf
