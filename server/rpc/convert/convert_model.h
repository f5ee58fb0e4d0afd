#pragma once

#include "absl/status/statusor.h"
#include "nerf/v1/model_service.pb.h"
#include "server/queue/catalogs/model_catalog.h"

namespace nerf {

v1::Model ToProto(const ModelRecord& model);

// Errors: InvalidArgument that lists every wrong field.
absl::StatusOr<ModelSpec> FromProto(const v1::PromoteCheckpointRequest& request);

}  // namespace nerf
