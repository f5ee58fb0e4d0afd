#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

enum class ResourceKind { kScene, kJob, kModel, kWorker };

// "projects/{project}". Errors: InvalidArgument for a malformed id.
absl::StatusOr<std::string> ProjectName(std::string_view project);

// The full resource name for `text`: an id ("j-7f3k2c81", "mic") of `project`, or a full name,
// which is returned unchanged. Errors: InvalidArgument that says what is expected.
absl::StatusOr<std::string> ExpandName(ResourceKind kind, std::string_view text,
                                       std::string_view project);

// The same for checkpoints: JOB/STEP, JOB/checkpoints/STEP or the full name. With `newest_allowed`,
// JOB and JOB/- name the job's newest checkpoint.
absl::StatusOr<std::string> ExpandCheckpointName(std::string_view text, std::string_view project,
                                                 bool newest_allowed);

// True for text with a job and a step, such as JOB/STEP.
bool LooksLikeCheckpoint(std::string_view text);

// OK for a display name that the server accepts: at most 128 bytes of UTF-8 without control
// characters. Errors: InvalidArgument FIELD_INVALID that names `flag`.
absl::Status CheckDisplayName(std::string_view flag, std::string_view name);

// The command that lists resources like the one of this full name; "" for no known kind.
std::string ListingCommand(std::string_view name);

// "model" for a model's name, "job", "checkpoint", "share"; empty for an unknown one.
std::string_view NounOf(std::string_view name);
// The name of the resource that a message begins with; empty if it begins with none.
std::string_view SubjectOf(std::string_view message);

// The kind of a full name; nullopt for checkpoints and unknown collections.
std::optional<ResourceKind> KindOf(std::string_view name);

// Replaces full names of the project's resources in `text` by short ones: "j-7f3k2c81",
// "j-7f3k2c81/1200".
std::string WithShortNames(std::string_view text, std::string_view project);

// The last part of a full name, JOB/STEP for a checkpoint; empty for empty.
std::string ShortName(std::string_view name);

}  // namespace nerf
