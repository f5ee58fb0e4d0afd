#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"
#include "nerf/v1/common.pb.h"
#include "server/queue/records/basic_messages.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

// Limits that keep messages below gRPC's 4 MiB: larger lists are cut into pages, larger scene
// manifests are refused.
inline constexpr size_t kMaxListBytes = size_t{3} << 20;
inline constexpr size_t kMaxManifestBytes = (size_t{7} << 20) / 2;

// The value; on an error, a default one, with the violations added to `check`.
template <typename T>
T TakeOr(absl::StatusOr<T> value, RequestCheck& check) {
  if (value.ok()) return *std::move(value);
  check.Add(value.status());
  return T();
}

// InvalidArgument FIELD_INVALID naming `field`, for a time that is not of the years 1 to 9999.
absl::StatusOr<absl::Time> FromProto(std::string_view field,
                                     const google::protobuf::Timestamp& time);

// InvalidArgument FIELD_INVALID naming `field`.
absl::StatusOr<BlobRef> FromProto(std::string_view field, const v1::BlobRef& blob);

// The beginning of a text of UTF-8, at most max_length bytes.
std::string Cut(const std::string& text, size_t max_length);
// The number, or 0 if it is not finite: neither the store nor JSON can hold that.
double Finite(double value);

}  // namespace nerf
