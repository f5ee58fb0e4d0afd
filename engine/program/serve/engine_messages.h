#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/protocol/progress.h"
#include "engine/field/files/tensor_file.h"
#include "engine/program/session/training_session.h"
#include "engine/program/written_views/view_writer.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/views/measure/evaluation.h"
#include "nerf/internal/engine.pb.h"

namespace nerf {

// Conversions between messages and the engine's types. Texts and lists are cut, so that each
// message has at most kMaxMessageBytes; bytes that are not UTF-8 become '?'.

// Errors: InvalidArgument FIELD_INVALID that lists every wrong field of the config. The device is
// left unset. Where resume and init are both given, resume wins: its training began from that init.
absl::StatusOr<TrainRequest> ToTrainRequest(const internal::Train& train);
// RGB where none is named.
template <typename Channels>
ViewChannels ChannelsOf(const Channels& channels) {
  ViewChannels of;
  of.rgb = channels.empty();
  for (const int channel : channels) {
    of.rgb |= channel == v1::RGB;
    of.rgba |= channel == v1::RGBA;
    of.rgbaz |= channel == v1::RGBAZ;
    of.depth |= channel == v1::DEPTH;
    of.opacity |= channel == v1::OPACITY;
  }
  return of;
}
// The text of a camera file with one frame.
std::string CameraText(const v1::Camera& camera);

// Code, message, and the reason that docs/inside/protocol.md gives for the code where the status
// has none of its own. Requires: not OK.
google::rpc::Status ErrorMessage(const absl::Status& status);
internal::EngineMessage StartedMessage(const std::string& job, const TrainingSession& session);
internal::EngineMessage ProgressMessage(const std::string& job, const TrainProgress& progress);
internal::EngineMessage DoneMessage(const std::string& job, const TrainSummary& summary,
                                    const std::vector<ImageScore>& test_views);
internal::EngineMessage FailedMessage(const std::string& job, const absl::Status& status,
                                      const std::vector<Problem>& problems);
internal::EngineMessage CheckedMessage(const std::string& id, const SceneDescription& description);
internal::EngineMessage RefusedMessage(const std::string& job, const std::string& id,
                                       const absl::Status& status);
void AddTensors(const TensorFile& file, internal::SavedState* state);

// Test views first, then training views, each by file; cameras in the data set's own frame.
v1::DescribeSceneResponse ViewsOf(const SceneDescription& description);

}  // namespace nerf
