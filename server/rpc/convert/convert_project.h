#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nerf/v1/admin_service.pb.h"
#include "server/queue/upkeep/queue_admin.h"

namespace nerf {

v1::Project ToProto(const ProjectView& project);

// A change of a project's settings.
struct ProjectUpdate {
  std::string project;
  std::function<void(ProjectRecord&)> change;
};
// InvalidArgument FIELD_INVALID naming every wrong field.
absl::StatusOr<ProjectUpdate> FromProto(const v1::UpdateProjectRequest& request);

// "workers/{worker}" -> worker. InvalidArgument FIELD_INVALID.
absl::StatusOr<std::string> ParseWorkerName(std::string_view field, std::string_view name);

}  // namespace nerf
