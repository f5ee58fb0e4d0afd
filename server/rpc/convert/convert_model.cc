#include "server/rpc/convert/convert_model.h"

#include <algorithm>

#include "common/status_macros.h"
#include "engine/base/messages/crop_box.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {

absl::StatusOr<ModelSpec> FromProto(const v1::PromoteCheckpointRequest& request) {
  RequestCheck check;
  ModelSpec spec;
  spec.checkpoint = TakeOr(ParseCheckpointName("name", request.name()), check);
  spec.project = spec.checkpoint.job.project;
  spec.id = request.model_id();
  check.RequireId("model_id", spec.id, /*may_be_empty=*/true);
  spec.request_id = request.request_id();
  check.RequireRequestId("request_id", spec.request_id);
  spec.display_name = request.display_name();
  check.RequireDisplayName("display_name", spec.display_name);
  NERF_RETURN_IF_ERROR(check.Result());
  return spec;
}

absl::StatusOr<std::pair<ResourceKey, v1::CropBox>> FromProto(
    const v1::UpdateModelRequest& request) {
  RequestCheck check;
  const v1::Model& model = request.model();
  const ResourceKey key = TakeOr(ParseModelName("model.name", model.name()), check);
  const auto& paths = request.update_mask().paths();
  check.Require(!paths.empty() && std::all_of(paths.begin(), paths.end(),
                                              [](const auto& path) { return path == "crop"; }),
                "update_mask", "must be crop");
  if (model.has_crop()) ReadCropBox("model.crop", model.crop(), &check);
  NERF_RETURN_IF_ERROR(check.Result());
  std::pair<ResourceKey, v1::CropBox> changed(key, model.crop());
  changed.second.DiscardUnknownFields();
  return changed;
}

}  // namespace nerf
