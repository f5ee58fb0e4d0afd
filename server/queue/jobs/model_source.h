#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// Feature of a worker (WorkerHello) that renders with styles: alpha, backgrounds, boxes, panoramas.
inline constexpr std::string_view kStyleFeature = "style";

// The capability of doing such work on models of `method`: "render/ngp". With a feature that its
// workers need besides: "render+style/ngp".
std::string ModelCapability(std::string_view work, std::string_view feature,
                            std::string_view method);

// The model that a render or export job is of.
struct ModelSource {
  bool from_checkpoint = false;  // else from a model
  ResourceKey source;            // the model, or the checkpoint's job
  std::optional<uint32_t> step;  // of the checkpoint; unset: the newest. Create sets it
  BlobRef model_blob;            // the file. Create sets it
  std::string feature;           // that older workers lack, but the work needs; or empty
  std::string capability;        // of workers that do the work. Create sets it
  std::string crop;              // as of Job and ModelRecord, if it is used. Create sets it
  std::string crop_feature;      // `feature` with such a crop; empty: it is not used. For Create

  bool operator==(const ModelSource&) const = default;
};

}  // namespace nerf
