#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "nerf/v1/model_service.pb.h"
#include "server/queue/catalogs/model_catalog.h"

namespace nerf {

// Errors: InvalidArgument that lists every wrong field.
absl::StatusOr<ModelSpec> FromProto(const v1::PromoteCheckpointRequest& request);
// The model and its new ModelRecord::crop. Errors as above.
absl::StatusOr<std::pair<ResourceKey, v1::CropBox>> FromProto(
    const v1::UpdateModelRequest& request);

}  // namespace nerf
