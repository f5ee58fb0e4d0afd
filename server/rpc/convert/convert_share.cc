#include "server/rpc/convert/convert_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/error_reason.h"
#include "common/ids.h"
#include "common/status_macros.h"
#include "engine/base/messages/render_check.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

// What a viewer needs of a share to start. Stored as bytes of a Share that has these fields alone.
v1::Share StartOf(const v1::Share& share) {
  v1::Share start;
  if (share.has_camera()) *start.mutable_camera() = share.camera();
  *start.mutable_center() = share.center();
  *start.mutable_up() = share.up();
  return start;
}

void CheckStart(const v1::Share& share, RequestCheck& check) {
  if (share.has_camera()) check.Add(ProblemsOf(share.camera()), "camera");
  const auto are_three = [](const auto& numbers) {
    return numbers.empty() ||
           (numbers.size() == 3 && std::all_of(numbers.begin(), numbers.end(), [](double number) {
              return std::isfinite(number);
            }));
  };
  check.Require(are_three(share.center()), "share.center", "must be 3 numbers or none");
  const bool has_direction = share.up().empty() || std::any_of(share.up().begin(), share.up().end(),
                                                               [](double n) { return n != 0; });
  check.Require(are_three(share.up()) && has_direction, "share.up",
                "must be 3 numbers, not all 0, or none");
}

}  // namespace

v1::Share ToShare(const TokenRecord& share) {
  v1::Share proto;
  proto.ParseFromString(share.start);
  proto.set_name(NameOf(share));
  proto.set_display_name(share.display_name);
  *proto.mutable_create_time() = ToProto(share.create_time);
  if (share.expire_time != absl::InfiniteFuture()) {
    *proto.mutable_expire_time() = ToProto(share.expire_time);
  }
  return proto;
}

absl::StatusOr<TokenRecord> FromProto(const v1::CreateShareRequest& request) {
  RequestCheck check;
  TokenRecord share;
  share.role = Role::kViewer;
  const ResourceKey model = TakeOr(ParseModelName("parent", request.parent()), check);
  share.project = model.project;
  share.resource = ModelName(model);
  share.display_name = request.share().display_name();
  check.RequireDisplayName("share.display_name", share.display_name);
  if (request.share().has_expire_time()) {
    share.expire_time =
        TakeOr(FromProto("share.expire_time", request.share().expire_time()), check);
  }
  CheckStart(request.share(), check);
  share.start = StartOf(request.share()).SerializeAsString();
  NERF_RETURN_IF_ERROR(check.Result());
  return share;
}

absl::Status AddExport(const ModelRecord& model, const Job& job, TokenRecord* share) {
  const std::string name = JobName(job.key);
  if (job.exporting->format() == v1::ExportSpec::FORMAT_UNSPECIFIED) {
    return InvalidFieldsError({{"share.export_job", fmt::format("{} is no export job", name)}});
  }
  if (job.key.project != model.key.project || ToBlobRef(job.model.blob()) != model.blob) {
    return InvalidFieldsError({{"share.export_job", fmt::format("{} is of another model", name)}});
  }
  if (!job.export_result.has_value()) {
    return StateConflict(
        fmt::format("{} is {}: it has made no files", name, JobStateName(job.state)),
        {{"state", std::string(JobStateName(job.state))}});
  }
  v1::Share start;
  start.ParseFromString(share->start);
  start.set_export_job(name);
  *start.mutable_files() = job.export_result->files();
  share->start = start.SerializeAsString();
  return absl::OkStatus();
}

absl::StatusOr<ShareKey> ParseShareName(std::string_view field, std::string_view name) {
  constexpr std::string_view kMiddle = "/shares/";
  const size_t middle = name.find(kMiddle);
  if (middle != std::string_view::npos) {
    const auto model = ParseModelName(field, name.substr(0, middle));
    const std::string_view id = name.substr(middle + kMiddle.size());
    if (model.ok() && IsResourceId(id)) return ShareKey{*model, std::string(id)};
  }
  return InvalidFieldsError(
      {{std::string(field),
        "must have the form projects/{project}/models/{model}/shares/{share}"}});
}

void AddShare(const TokenRegistry& tokens, const Principal& caller, v1::Access* access) {
  const auto key = ParseShareName("", caller.name);
  if (!key.ok()) return;
  const auto share = tokens.Get(key->id, ModelName(key->model));
  if (share.ok()) *access->mutable_share() = ToShare(*share);
}

}  // namespace nerf
