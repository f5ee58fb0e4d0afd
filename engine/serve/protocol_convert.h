#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/files/tensor_file.h"
#include "engine/measure/evaluation.h"
#include "engine/protocol/messages.h"
#include "engine/protocol/scene_views.h"
#include "engine/scene/scene_reader.h"
#include "engine/training/training_session.h"

namespace nerf {

// Conversions between the messages of engine/protocol and the engine's types.

// Errors: InvalidArgument FIELD_INVALID that lists every budget, background and setting that is
// not known or not allowed. The device is left unset. Where resume and init are both given, resume
// wins: its training began from that init.
absl::StatusOr<TrainRequest> ToTrainRequest(const protocol::Train& train);

protocol::Config ToProtocol(const TrainConfig& config);
std::vector<protocol::Problem> ToProtocol(const std::vector<SceneProblem>& problems);
std::vector<protocol::Tensor> TensorsOf(const TensorFile& file);
protocol::Checked ToChecked(const std::string& id, const SceneDescription& description);
// Test views first, then training views, each by file; cameras in the data set's own frame.
std::vector<protocol::SceneView> SceneViewsOf(const SceneDescription& description);
std::vector<protocol::TestViewScore> ToProtocol(const std::vector<ImageScore>& scores);

// Code, reason and message of a status that is not OK. A status without a reason gets the one that
// docs/inside/protocol.md gives for its code.
protocol::Error ToProtocol(const absl::Status& status);

}  // namespace nerf
