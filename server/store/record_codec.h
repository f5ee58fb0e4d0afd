#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/queue/jobs/job_event.h"
#include "server/queue/jobs/model_record.h"
#include "server/queue/resources/project_record.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// The part of a row that SQL does not read: keys and values as one byte string. Default values are
// left out. A reader ignores unknown keys and uses the default for missing ones, so that successive
// versions can read each other's rows.

// Everything of a job but its key, create_sequence, state and lease, which have columns.
std::string EncodeJobBody(const Job& job);
absl::Status DecodeJobBody(std::string_view body, Job* job);

// Everything of an event but its sequence and kind.
std::string EncodeEventBody(const JobEvent& event);
absl::Status DecodeEventBody(std::string_view body, JobEvent* event);

// Everything of a scene or model but its key and create_sequence.
std::string EncodeSceneBody(const SceneRecord& scene);
absl::Status DecodeSceneBody(std::string_view body, SceneRecord* scene);
std::string EncodeModelBody(const ModelRecord& model);
absl::Status DecodeModelBody(std::string_view body, ModelRecord* model);

// Everything of a project but its name.
std::string EncodeProjectBody(const ProjectRecord& project);
absl::Status DecodeProjectBody(std::string_view body, ProjectRecord* project);

}  // namespace nerf
