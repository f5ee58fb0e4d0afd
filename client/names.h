#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

enum class ResourceKind { kScene, kJob, kModel, kWorker };

// "projects/{project}", or the error of a project id that cannot be one.
absl::StatusOr<std::string> ProjectName(std::string_view project);

// The resource name that `text` means: a short id ("j-7f3k2c81", "mic") is put into `project`, a
// full name is checked and kept. Errors: InvalidArgument that says what was expected.
absl::StatusOr<std::string> ExpandName(ResourceKind kind, std::string_view text,
                                       std::string_view project);

// As ExpandName for checkpoints: JOB/STEP, JOB/checkpoints/STEP or the full name. Where
// `newest_allowed`, JOB alone and JOB/- mean the job's newest one.
absl::StatusOr<std::string> ExpandCheckpointName(std::string_view text, std::string_view project,
                                                 bool newest_allowed);

// True for text that ExpandCheckpointName takes to be more than a bare id.
bool LooksLikeCheckpoint(std::string_view text);

// OK for what the server takes as a display name: at most 128 bytes of UTF-8 without control
// characters. Errors: InvalidArgument FIELD_INVALID that names `flag`.
absl::Status CheckDisplayName(std::string_view flag, std::string_view name);

// The command that lists resources like the one of this full name, "" where there is none.
std::string ListingCommand(std::string_view name);

// What people type: the last part of a name, "JOB/STEP" for a checkpoint; empty for empty.
std::string ShortName(std::string_view name);

}  // namespace nerf
