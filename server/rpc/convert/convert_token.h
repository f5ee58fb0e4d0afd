#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nerf/v1/admin_service.pb.h"
#include "server/access/access_store.h"
#include "server/access/principal.h"

namespace nerf {

v1::Token ToProto(const TokenRecord& token);
v1::Access ToProto(const Principal& principal);

// What CreateToken is asked for. InvalidArgument FIELD_INVALID that lists every wrong field.
absl::StatusOr<TokenRecord> FromProto(const v1::CreateTokenRequest& request);
// "tokens/{t}" -> t. InvalidArgument FIELD_INVALID.
absl::StatusOr<std::string> ParseTokenName(std::string_view field, std::string_view name);

}  // namespace nerf
