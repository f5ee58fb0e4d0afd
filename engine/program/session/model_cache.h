#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/program/session/loaded_model.h"

namespace nerf {

// Models loaded for renders. Above the limit in bytes the least recently used ones are dropped; the
// last one used is always kept. A file that changed is read again. Not thread-safe.
class ModelCache {
 public:
  // device outlives the models.
  ModelCache(uint64_t max_bytes, RenderDevice* device) : max_bytes_(max_bytes), device_(device) {}

  // The model of a file; shared, because it may be dropped from the cache while in use. Errors: as
  // LoadModelFile.
  absl::StatusOr<std::shared_ptr<const LoadedModel>> Get(const std::string& path);

  uint64_t byte_size() const { return byte_size_; }
  size_t n_models() const { return entries_.size(); }

 private:
  struct Entry {
    std::string identity;  // path, inode, size and time of change
    std::shared_ptr<const LoadedModel> model;
  };

  const uint64_t max_bytes_;
  RenderDevice* const device_;
  uint64_t byte_size_ = 0;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace nerf
