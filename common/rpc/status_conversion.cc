#include "common/rpc/status_conversion.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/error_reason.h"
#include "google/rpc/error_details.pb.h"

namespace nerf {
namespace {

// The trailers hold the message twice (percent-encoded, up to 3 bytes for 1, and in the details)
// and the details in base64: 1 KiB * 3 + (1 KiB + 2.5 KiB) * 4/3 stays below gRPC's 8 KiB.
constexpr size_t kMaxStatusMessageBytes = 1024;
constexpr size_t kMaxDetailBytes = 2560;
constexpr size_t kMaxMetadataValueBytes = 256;
constexpr size_t kMaxEntryBytes = 512;

std::string Cut(const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t size = max_bytes - 3;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size) + "...";
}

// Shortens the lists of a detail so that all details fit into `*room` bytes.
void AddCutDetail(const google::protobuf::Any& detail, size_t* room, google::rpc::Status* result) {
  google::rpc::ErrorInfo error_info;
  google::rpc::BadRequest bad_request;
  google::rpc::PreconditionFailure failure;
  google::protobuf::Any cut;
  constexpr size_t kReserve = 128;  // for the entry that counts the rest and the type's URL
  if (detail.UnpackTo(&error_info)) {
    google::rpc::ErrorInfo kept;
    kept.set_reason(Cut(error_info.reason(), 63));
    kept.set_domain(error_info.domain());
    for (const auto& [key, value] : error_info.metadata()) {
      if (kept.ByteSizeLong() + key.size() + kMaxMetadataValueBytes + kReserve > *room / 2) break;
      (*kept.mutable_metadata())[key] = Cut(value, kMaxMetadataValueBytes);
    }
    cut.PackFrom(kept);
  } else if (detail.UnpackTo(&bad_request)) {
    google::rpc::BadRequest kept;
    for (int i = 0; i < bad_request.field_violations_size(); ++i) {
      auto violation = bad_request.field_violations(i);
      violation.set_field(Cut(violation.field(), kMaxEntryBytes));
      violation.set_description(Cut(violation.description(), kMaxEntryBytes));
      if (kept.ByteSizeLong() + violation.ByteSizeLong() + kReserve > *room) {
        kept.add_field_violations()->set_description(
            fmt::format("and {} more", bad_request.field_violations_size() - i));
        break;
      }
      *kept.add_field_violations() = violation;
    }
    cut.PackFrom(kept);
  } else if (detail.UnpackTo(&failure)) {
    google::rpc::PreconditionFailure kept;
    for (int i = 0; i < failure.violations_size(); ++i) {
      if (kept.ByteSizeLong() + failure.violations(i).ByteSizeLong() + kReserve > *room) {
        kept.add_violations()->set_description(
            fmt::format("and {} more", failure.violations_size() - i));
        break;
      }
      *kept.add_violations() = failure.violations(i);
    }
    cut.PackFrom(kept);
  } else {
    return;
  }
  const size_t size = cut.ByteSizeLong();
  if (size > *room) return;
  *room -= size;
  *result->add_details() = cut;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status whole = ToRpcStatus(status);
  google::rpc::Status cut;
  cut.set_code(whole.code());
  cut.set_message(Cut(whole.message(), kMaxStatusMessageBytes));
  size_t room = kMaxDetailBytes;
  for (const google::protobuf::Any& detail : whole.details()) AddCutDetail(detail, &room, &cut);
  return grpc::Status(static_cast<grpc::StatusCode>(whole.code()), cut.message(),
                      cut.details_size() == 0 ? "" : cut.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status rpc_status;
  if (!rpc_status.ParseFromString(status.error_details())) rpc_status.Clear();
  rpc_status.set_code(static_cast<int>(status.error_code()));
  rpc_status.set_message(ToUtf8(status.error_message()));
  return FromRpcStatus(rpc_status);
}

}  // namespace nerf
