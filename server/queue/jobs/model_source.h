#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// The model that a render or export job is of.
struct ModelSource {
  bool from_checkpoint = false;  // else from a model
  ResourceKey source;            // the model, or the checkpoint's job
  std::optional<uint32_t> step;  // of the checkpoint; unset: the newest. Create sets it
  BlobRef model_blob;            // the file. Create sets it
  std::string capability;        // of workers that do the work. Create sets it

  bool operator==(const ModelSource&) const = default;
};

}  // namespace nerf
