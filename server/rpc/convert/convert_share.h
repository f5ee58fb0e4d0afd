#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nerf/v1/admin_service.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "server/access/access_store.h"
#include "server/access/principal.h"
#include "server/access/token_registry.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/model_record.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

v1::Share ToShare(const TokenRecord& share);

// What CreateShare is asked for. InvalidArgument FIELD_INVALID that lists every wrong field.
absl::StatusOr<TokenRecord> FromProto(const v1::CreateShareRequest& request);

// Lets whoever has the share download what the export job has made. Errors: InvalidArgument
// FIELD_INVALID for a job of something else than the model; FailedPrecondition STATE_CONFLICT for
// one that has not succeeded.
absl::Status AddExport(const ModelRecord& model, const Job& job, TokenRecord* share);

// A share's name in parts. InvalidArgument FIELD_INVALID.
struct ShareKey {
  ResourceKey model;
  std::string id;
};
absl::StatusOr<ShareKey> ParseShareName(std::string_view field, std::string_view name);

// Sets `share` if the caller came with one.
void AddShare(const TokenRegistry& tokens, const Principal& caller, v1::Access* access);

}  // namespace nerf
