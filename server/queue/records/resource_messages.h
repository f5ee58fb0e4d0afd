#pragma once

#include "absl/status/status.h"
#include "nerf/internal/store.pb.h"
#include "nerf/v1/admin_service.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "nerf/v1/scene_service.pb.h"
#include "server/queue/jobs/model_record.h"
#include "server/queue/resources/project_record.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// As their readers see them.
v1::Scene ToProto(const SceneRecord& scene);
v1::Model ToProto(const ModelRecord& model);
// Without its use.
v1::Project ToProto(const ProjectRecord& project);

// Everything of a scene or model but its key and create_sequence, and of a project but its name.
internal::SceneRecord ToRecord(const SceneRecord& scene);
internal::ModelRecord ToRecord(const ModelRecord& model);
internal::ProjectRecord ToRecord(const ProjectRecord& project);

// The inverse. DataLoss STORE_CORRUPT.
absl::Status FromRecord(const internal::SceneRecord& record, SceneRecord* scene);
absl::Status FromRecord(const internal::ModelRecord& record, ModelRecord* model);
absl::Status FromRecord(const internal::ProjectRecord& record, ProjectRecord* project);

}  // namespace nerf
