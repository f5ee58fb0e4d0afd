#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/protocol/messages.h"
#include "nerf/v1/common.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "nerf/v1/render_service.pb.h"
#include "nerf/v1/training_job.pb.h"
#include "nerf/v1/worker_service.pb.h"

namespace nerf {

// Conversions between the messages of engine/protocol and those of the API.

protocol::Config ToProtocol(const v1::TrainingConfig& config);
// id, file, job and out are left unset.
protocol::Render ToProtocol(const v1::RenderImageRequest& view);

// init is left unset. A background or budget that the API does not know is left out.
v1::TrainingConfig ToProto(const protocol::Config& config);
// The figures of a job. Unknown ones are left out, as are the fields of the preview.
v1::Progress ToProto(const TrainProgress& progress);
// The figures of the worker: the last values, no counts.
v1::WorkerMetrics WorkerFigures(const TrainProgress& progress);
// The last progress of a finished training, with its totals.
TrainProgress FinalProgress(const TrainSummary& summary);
v1::SceneProblem ToProto(const protocol::Problem& problem);
v1::TensorSpec ToProto(const protocol::Tensor& tensor);
absl::Status ToStatus(const protocol::Error& error);
absl::Duration FromProto(const google::protobuf::Duration& duration);

// "rgb", "rgba", "depth" or "opacity"; an unspecified channel is rgb.
std::string_view ChannelName(v1::RenderChannel channel);

}  // namespace nerf
