#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/queue/jobs/job.h"

namespace nerf {

// A promoted checkpoint. Only `crop` changes after creation.
struct ModelRecord {
  ResourceKey key;
  uint64_t create_sequence = 0;  // order of creation in this store, from 1
  std::string display_name;
  std::string request_id;
  std::string job;    // id of the job that trained it, in the same project
  uint32_t step = 0;  // of the checkpoint
  std::string method;
  BlobRef blob;  // the model file
  std::optional<double> preview_psnr;
  std::vector<TensorRecord> tensors;
  v1::CropBox crop;  // as of Job
  absl::Time create_time = absl::InfinitePast();
  absl::Time create_age = absl::InfinitePast();  // in the store's time (StoredState::age)
};

// Memory of the model.
inline uint64_t BytesOf(const ModelRecord& model) {
  constexpr uint64_t kOthers = 512;  // short strings, and the nodes of the maps that lead to it
  return sizeof(model) + kOthers + model.crop.ByteSizeLong() + BytesOf(model.tensors);
}

}  // namespace nerf
