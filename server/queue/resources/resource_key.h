#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

// A resource inside a project. Both parts satisfy IsResourceId (common/ids.h).
struct ResourceKey {
  std::string project;
  std::string id;

  auto operator<=>(const ResourceKey&) const = default;
};

// A checkpoint's name in parts; without a step it means the newest ("-" on the wire).
struct CheckpointKey {
  ResourceKey job;
  std::optional<uint32_t> step;
};

// Names as on the wire: projects/{p}/jobs/{j}, projects/{p}/scenes/{s}, projects/{p}/models/{m},
// projects/{p}/jobs/{j}/checkpoints/{step}.
std::string JobName(const ResourceKey& key);
std::string SceneName(const ResourceKey& key);
std::string ModelName(const ResourceKey& key);
std::string CheckpointName(const ResourceKey& job, uint32_t step);

// The inverse. `field` names the request's field in the error: InvalidArgument FIELD_INVALID.
absl::StatusOr<ResourceKey> ParseJobName(std::string_view field, std::string_view name);
absl::StatusOr<ResourceKey> ParseSceneName(std::string_view field, std::string_view name);
absl::StatusOr<ResourceKey> ParseModelName(std::string_view field, std::string_view name);
absl::StatusOr<CheckpointKey> ParseCheckpointName(std::string_view field, std::string_view name);
// "projects/{p}" -> p; empty -> "default".
absl::StatusOr<std::string> ParseProjectName(std::string_view field, std::string_view name);

}  // namespace nerf
