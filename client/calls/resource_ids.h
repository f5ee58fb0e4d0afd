#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/flags/names.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

class Session;

// The short ids of the newest 100 resources of a kind in the project, for completion and for
// suggestions. job_kind: of jobs only those of this kind, such as "pose"; empty: all. Empty on any
// error.
std::vector<std::string> ListShortIds(Session& session, ResourceKind kind,
                                      std::string_view job_kind = "");

// The training of the same project and id as the model `model_name` would have. Nullopt if there is
// none or the server does not answer.
std::optional<v1::Job> JobNamedLike(Session& session, std::string_view model_name);

}  // namespace nerf
