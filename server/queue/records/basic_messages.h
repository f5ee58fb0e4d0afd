#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/rpc/status.pb.h"
#include "nerf/v1/job_service.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "nerf/v1/scene_service.pb.h"
#include "nerf/v1/training_job.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

google::protobuf::Timestamp ToProto(absl::Time time);
google::protobuf::Duration ToProto(absl::Duration duration);
// Of what the server has written itself.
absl::Time ToTime(const google::protobuf::Timestamp& time);
absl::Duration ToDuration(const google::protobuf::Duration& duration);

v1::Job::State ToProto(JobState state);

v1::TensorSpec ToProto(const TensorRecord& tensor);
TensorRecord FromProto(const v1::TensorSpec& tensor);

v1::SceneFile ToProto(const SceneFileRecord& file);

google::rpc::Status ToProto(const JobError& error);
// The inverse, without problems. A code of OK becomes kUnknown.
JobError ToJobError(const google::rpc::Status& status);

v1::Init ToProto(const InitReference& init);

// "workers/{id}", the name of a worker; empty for none.
std::string WorkerName(std::string_view id);

}  // namespace nerf
