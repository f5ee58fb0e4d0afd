#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/queue/jobs/pose_spec.h"
#include "server/store/record_io.h"

namespace nerf {

// Records of pose jobs, as parts of those of record_codec.h. Errors: as there.

std::string EncodePose(const PoseSpec& pose);
absl::Status DecodePose(std::string_view record, PoseSpec* pose);

std::string EncodePoseResult(const PoseResult& result);
absl::Status DecodePoseResult(std::string_view record, PoseResult* result);

// Keys that begin with "pose."; none before the first stage.
void PutPoseStage(RecordWriter& writer, const PoseStage& pose);
void GetPoseStage(RecordReader& reader, PoseStage* pose);

}  // namespace nerf
