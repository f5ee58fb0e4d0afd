#include "server/queue/records/basic_messages.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/messages/rpc_status.h"

namespace nerf {

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp proto;
  proto.set_seconds(absl::ToUnixSeconds(time));
  const absl::Duration rest = time - absl::FromUnixSeconds(proto.seconds());
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  return google::protobuf::util::TimeUtil::NanosecondsToDuration(
      absl::ToInt64Nanoseconds(duration));
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

// The message has the same states in the same order, after "not set".
v1::Job::State ToProto(JobState state) {
  return static_cast<v1::Job::State>(static_cast<int>(state) + 1);
}

v1::TensorSpec ToProto(const TensorRecord& tensor) {
  v1::TensorSpec proto;
  proto.set_name(tensor.name);
  proto.set_dtype(tensor.dtype);
  for (const uint32_t size : tensor.shape) proto.add_shape(size);
  return proto;
}

TensorRecord FromProto(const v1::TensorSpec& tensor) {
  return {tensor.name(), tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}};
}

v1::SceneFile ToProto(const SceneFileRecord& file) {
  v1::SceneFile proto;
  proto.set_path(file.path);
  *proto.mutable_blob() = ToProto(file.blob);
  return proto;
}

google::rpc::Status ToProto(const JobError& error) {
  absl::Status status(error.code, error.message);
  if (!error.reason.empty()) status = WithReason(std::move(status), error.reason, error.metadata);
  return ToRpcStatus(status);
}

JobError ToJobError(const google::rpc::Status& status) {
  const absl::Status failure = ErrorFromRpcStatus(status);
  JobError error;
  error.code = failure.code();
  error.message = std::string(failure.message());
  if (const auto found = GetReason(failure); found.has_value()) {
    error.reason = found->reason;
    error.metadata.insert(found->metadata.begin(), found->metadata.end());
  }
  return error;
}

v1::Init ToProto(const InitReference& init) {
  v1::Init proto;
  if (init.kind == InitReference::Kind::kModel) {
    proto.set_model(ModelName(init.source));
  } else {
    proto.set_checkpoint(CheckpointName(init.source, init.step));
  }
  proto.set_scope(init.scope);
  return proto;
}

std::string WorkerName(std::string_view id) {
  return id.empty() ? std::string() : absl::StrCat("workers/", std::string(id));
}

}  // namespace nerf
