#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nerf/v1/render_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/jobs/model_source.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {

// The model or checkpoint that the spec of a render or export job, `field`, names.
template <typename Spec>
void ParseModelSource(std::string_view field, const Spec& spec, ModelSource* source,
                      RequestCheck& check) {
  if (spec.has_model()) {
    source->source = TakeOr(ParseModelName(std::string(field) + ".model", spec.model()), check);
  } else if (spec.has_checkpoint()) {
    const CheckpointKey key =
        TakeOr(ParseCheckpointName(std::string(field) + ".checkpoint", spec.checkpoint()), check);
    source->from_checkpoint = true;
    source->source = key.job;
    source->step = key.step;
  } else {
    check.Require(false, std::string(field) + ".source", "must be one of model and checkpoint");
  }
}

// The cameras of a path, each of width x height. InvalidArgument FIELD_INVALID; `field` names the
// path. Refuses paths through the scene, which only the engine knows.
absl::StatusOr<std::vector<v1::Camera>> ExpandPath(std::string_view field,
                                                   const v1::CameraPath& path, uint32_t width,
                                                   uint32_t height);

// What a worker commits. InvalidArgument FIELD_INVALID.
struct CommittedFrames {
  LeaseRef lease;
  std::vector<std::pair<uint32_t, FrameRecord>> frames;
  std::optional<BlobRef> movie;
};
absl::StatusOr<CommittedFrames> FromProto(const v1::CommitFramesRequest& request);

}  // namespace nerf
