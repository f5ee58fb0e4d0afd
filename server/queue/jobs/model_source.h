#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "nerf/internal/store.pb.h"
#include "nerf/v1/common.pb.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// Feature of a worker (WorkerHello) that renders with styles: alpha, backgrounds, boxes, panoramas.
inline constexpr std::string_view kStyleFeature = "style";
inline constexpr std::string_view kRgbazFeature = "style-2";  // RGBAZ, too

// The capability of doing such work on models of `method`: "render/ngp". With a feature that its
// workers need besides: "render+style/ngp".
std::string ModelCapability(std::string_view work, std::string_view feature,
                            std::string_view method);

// The model that a render or export job is to be of, as it is asked for.
struct ModelSource {
  bool from_checkpoint = false;  // else from a model
  ResourceKey source;            // the model, or the checkpoint's job
  std::optional<uint32_t> step;  // of the checkpoint; unset: the newest
  std::string feature;           // that older workers lack, but the work needs; or empty
  std::string crop_feature;      // the same with the box kept with the source; empty: unused
};

// What it stands for.
struct FoundModel {
  BlobRef blob;
  std::string method;
  v1::CropBox crop;  // as of Job and ModelRecord
  uint32_t step = 0;
};

// Whether Job::crop or ModelRecord::crop is a box.
inline bool HasBox(const v1::CropBox& crop) { return !crop.size().empty(); }
// Whether the job is of the box that is kept with its model.
bool UsesCrop(const ModelSource& source, const FoundModel& found);
// `work` is a feature of workers: kRenderFeature.
internal::JobModel ModelOfJob(std::string_view work, const ModelSource& source,
                              const FoundModel& found);

}  // namespace nerf
