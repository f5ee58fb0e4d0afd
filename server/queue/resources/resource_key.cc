#include "server/queue/resources/resource_key.h"

#include <fmt/format.h>

#include <vector>

#include "common/error_reason.h"
#include "common/ids.h"

namespace nerf {
namespace {

std::vector<std::string_view> SplitBySlash(std::string_view name) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t slash = name.find('/');
    parts.push_back(name.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    name.remove_prefix(slash + 1);
  }
}

absl::Status BadName(std::string_view field, std::string_view pattern) {
  return InvalidFieldsError({{std::string(field), fmt::format("must have the form {}", pattern)}});
}

// A step as decimal digits, without sign or leading zeros.
std::optional<uint32_t> ParseStep(std::string_view text) {
  if (text.empty() || text.size() > 10 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  if (value > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(value);
}

// projects/{p}/`collection`/{id}.
absl::StatusOr<ResourceKey> ParseResourceName(std::string_view field, std::string_view name,
                                              std::string_view collection) {
  const std::vector<std::string_view> parts = SplitBySlash(name);
  if (parts.size() != 4 || parts[0] != "projects" || parts[2] != collection ||
      !IsResourceId(parts[1]) || !IsResourceId(parts[3])) {
    return BadName(field, fmt::format("projects/{{project}}/{}/{{id}}", collection));
  }
  return ResourceKey{std::string(parts[1]), std::string(parts[3])};
}

}  // namespace

std::string JobName(const ResourceKey& key) {
  return fmt::format("projects/{}/jobs/{}", key.project, key.id);
}
std::string SceneName(const ResourceKey& key) {
  return fmt::format("projects/{}/scenes/{}", key.project, key.id);
}
std::string ModelName(const ResourceKey& key) {
  return fmt::format("projects/{}/models/{}", key.project, key.id);
}
std::string CheckpointName(const ResourceKey& job, uint32_t step) {
  return fmt::format("{}/checkpoints/{}", JobName(job), step);
}

absl::StatusOr<ResourceKey> ParseJobName(std::string_view field, std::string_view name) {
  return ParseResourceName(field, name, "jobs");
}
absl::StatusOr<ResourceKey> ParseSceneName(std::string_view field, std::string_view name) {
  return ParseResourceName(field, name, "scenes");
}
absl::StatusOr<ResourceKey> ParseModelName(std::string_view field, std::string_view name) {
  return ParseResourceName(field, name, "models");
}

absl::StatusOr<CheckpointKey> ParseCheckpointName(std::string_view field, std::string_view name) {
  const absl::Status bad = BadName(field, "projects/{project}/jobs/{id}/checkpoints/{step}");
  constexpr std::string_view kMiddle = "/checkpoints/";
  const size_t middle = name.find(kMiddle);
  if (middle == std::string_view::npos) return bad;
  const auto job = ParseJobName(field, name.substr(0, middle));
  if (!job.ok()) return bad;
  const std::string_view step_text = name.substr(middle + kMiddle.size());
  if (step_text == "-") return CheckpointKey{*job, std::nullopt};
  const std::optional<uint32_t> step = ParseStep(step_text);
  if (!step.has_value()) return bad;
  return CheckpointKey{*job, step};
}

absl::StatusOr<std::string> ParseProjectName(std::string_view field, std::string_view name) {
  if (name.empty()) return "default";
  constexpr std::string_view kPrefix = "projects/";
  if (!name.starts_with(kPrefix) || !IsResourceId(name.substr(kPrefix.size()))) {
    return BadName(field, "projects/{project}");
  }
  return std::string(name.substr(kPrefix.size()));
}

}  // namespace nerf
