#include "server/rpc/convert/convert_common.h"

#include <google/protobuf/util/time_util.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/messages/blob_ref.h"
#include "common/status_macros.h"

namespace nerf {

google::protobuf::Timestamp ToProto(absl::Time time) {
  const int64_t nanos = absl::ToUnixNanos(time);
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(nanos);
}

absl::StatusOr<absl::Time> FromProto(std::string_view field,
                                     const google::protobuf::Timestamp& time) {
  // 0001 to 9999, as google.protobuf.Timestamp has it.
  if (time.seconds() < -62'135'596'800 || time.seconds() > 253'402'300'799 || time.nanos() < 0 ||
      time.nanos() >= 1'000'000'000) {
    return InvalidFieldsError({{std::string(field), "is no time from year 1 to 9999"}});
  }
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  return google::protobuf::util::TimeUtil::NanosecondsToDuration(
      absl::ToInt64Nanoseconds(duration));
}

v1::BlobRef ToProto(const BlobRef& blob) {
  v1::BlobRef proto;
  proto.set_sha256(blob.sha256);
  proto.set_size_bytes(static_cast<double>(blob.byte_size));
  return proto;
}

absl::StatusOr<BlobRef> FromProto(std::string_view field, const v1::BlobRef& blob) {
  NERF_RETURN_IF_ERROR(CheckBlobRef(field, blob));
  return BlobRef{blob.sha256(), static_cast<uint64_t>(blob.size_bytes())};
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

v1::SceneProblem ToProto(const JobProblem& problem) {
  v1::SceneProblem proto;
  proto.set_file(problem.file);
  proto.set_field(problem.field);
  proto.set_message(problem.message);
  return proto;
}

std::string WorkerName(std::string_view id) {
  return id.empty() ? std::string() : absl::StrCat("workers/", std::string(id));
}

std::string Cut(const std::string& text, size_t max_length) {
  if (text.size() <= max_length) return text;
  size_t length = max_length;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  return text.substr(0, length);
}

double Finite(double value) { return std::isfinite(value) ? value : 0; }

}  // namespace nerf
