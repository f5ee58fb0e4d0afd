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

}  // namespace nerf
