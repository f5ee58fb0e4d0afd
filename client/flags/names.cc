#include "client/flags/names.h"

#include <algorithm>
#include <vector>

#include "client/flags/text_format.h"
#include "common/error_reason.h"
#include "common/ids.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct KindWords {
  std::string_view noun;
  std::string_view collection;
  std::string_view example;
};

KindWords WordsOf(ResourceKind kind) {
  switch (kind) {
    case ResourceKind::kScene:
      return {"scene", "scenes", "s-7f3k2c81"};
    case ResourceKind::kJob:
      return {"job", "jobs", "j-7f3k2c81"};
    case ResourceKind::kModel:
      return {"model", "models", "m-7f3k2c81"};
    case ResourceKind::kWorker:
      return {"worker", "workers", "w-7f3k2c81"};
  }
  return {};
}

std::vector<std::string_view> SplitAtSlashes(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find('/', begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool IsStep(std::string_view text) {
  return !text.empty() && text.size() <= 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

absl::Status NotAName(std::string_view noun, std::string_view text, std::string_view expected) {
  return absl::InvalidArgumentError(fmt::format("'{}' is not the name of a {}: expected {}",
                                                text.substr(0, 128), noun, expected));
}

}  // namespace

absl::StatusOr<std::string> ProjectName(std::string_view project) {
  if (!IsResourceId(project)) {
    return absl::InvalidArgumentError(
        fmt::format("--project: '{}' is not 1 to 63 of a-z, 0-9 and -, beginning with a letter",
                    project.substr(0, 128)));
  }
  return fmt::format("projects/{}", project);
}

absl::StatusOr<std::string> ExpandName(ResourceKind kind, std::string_view text,
                                       std::string_view project) {
  const KindWords words = WordsOf(kind);
  const bool in_project = kind != ResourceKind::kWorker;
  NERF_ASSIGN_OR_RETURN(const std::string parent, ProjectName(project));
  if (IsResourceId(text)) {
    return in_project ? fmt::format("{}/{}/{}", parent, words.collection, text)
                      : fmt::format("{}/{}", words.collection, text);
  }
  const std::vector<std::string_view> parts = SplitAtSlashes(text);
  const bool full =
      in_project ? parts.size() == 4 && parts[0] == "projects" && IsResourceId(parts[1]) &&
                       parts[2] == words.collection && IsResourceId(parts[3])
                 : parts.size() == 2 && parts[0] == words.collection && IsResourceId(parts[1]);
  if (full) return std::string(text);
  return NotAName(words.noun, text,
                  fmt::format("an id such as {} or {}{}/ID", words.example,
                              in_project ? "projects/PROJECT/" : "", words.collection));
}

absl::StatusOr<std::string> ExpandCheckpointName(std::string_view text, std::string_view project,
                                                 bool newest_allowed) {
  const absl::Status error =
      NotAName("checkpoint", text,
               newest_allowed ? "JOB/STEP such as j-7f3k2c81/1200, or JOB for its newest one"
                              : "JOB/STEP such as j-7f3k2c81/1200");
  std::string_view job = text, step = "-";
  const std::vector<std::string_view> parts = SplitAtSlashes(text);
  const bool full_job = parts.size() == 4 && parts[0] == "projects";
  if (parts.size() > 1 && !full_job) {
    step = parts.back();
    job.remove_suffix(step.size() + 1);
    if (parts.size() > 2 && parts[parts.size() - 2] == "checkpoints") {
      job.remove_suffix(std::string_view("/checkpoints").size());
    } else if (parts.size() > 2) {
      return error;
    }
  }
  if (!IsStep(step) && !(newest_allowed && step == "-")) return error;
  const absl::StatusOr<std::string> job_name = ExpandName(ResourceKind::kJob, job, project);
  if (!job_name.ok()) return error;
  return fmt::format("{}/checkpoints/{}", *job_name, step);
}

bool LooksLikeCheckpoint(std::string_view text) {
  const std::vector<std::string_view> parts = SplitAtSlashes(text);
  return parts.size() == 2 || (parts.size() > 2 && parts[parts.size() - 2] == "checkpoints");
}

absl::Status CheckDisplayName(std::string_view flag, std::string_view name) {
  constexpr size_t kMaxBytes = 128;
  if (name.size() > kMaxBytes) {
    return InvalidFieldsError(
        {{std::string(flag), fmt::format("has {} bytes, more than {}", name.size(), kMaxBytes)}});
  }
  if (PlainText(name) != name) {
    return InvalidFieldsError({{std::string(flag), "must be UTF-8 without control characters"}});
  }
  return absl::OkStatus();
}

std::optional<ResourceKind> KindOf(std::string_view name) {
  const std::vector<std::string_view> parts = SplitAtSlashes(name);
  if (parts.size() < 2) return std::nullopt;
  for (const ResourceKind kind :
       {ResourceKind::kScene, ResourceKind::kJob, ResourceKind::kModel, ResourceKind::kWorker}) {
    if (parts[parts.size() - 2] == WordsOf(kind).collection) return kind;
  }
  return std::nullopt;
}

std::string ListingCommand(std::string_view name) {
  const std::vector<std::string_view> parts = SplitAtSlashes(name);
  const size_t n = parts.size();
  const std::string project = parts[0] == "projects" && n > 1 && parts[1] != "default"
                                  ? fmt::format("--project {} ", parts[1])
                                  : "";
  if (n > 2 && parts[n - 2] == "checkpoints") {
    return fmt::format("nerfctl {}job show {}", project, parts[n - 3]);
  }
  if (n > 2 && parts[n - 2] == "shares") {
    return fmt::format("nerfctl {}share ls {}", project, parts[n - 3]);
  }
  if (n == 2 && parts[0] == "tokens") return "nerfctl token ls --every-project";
  const std::optional<ResourceKind> kind = KindOf(name);
  return kind.has_value() ? fmt::format("nerfctl {}{} ls", project, WordsOf(*kind).noun) : "";
}

std::string_view NounOf(std::string_view name) {
  const std::vector<std::string_view> parts = SplitAtSlashes(name);
  const std::string_view collection = parts.size() < 2 ? "" : parts[parts.size() - 2];
  if (collection == "checkpoints") return "checkpoint";
  if (collection == "shares") return "share";
  if (collection == "tokens") return "token";
  const std::optional<ResourceKind> kind = KindOf(name);
  return kind.has_value() ? WordsOf(*kind).noun : "";
}

std::string_view SubjectOf(std::string_view message) {
  const std::string_view name = message.substr(0, message.find(' '));
  const bool is_name =
      name.starts_with("projects/") || name.starts_with("tokens/") || name.starts_with("workers/");
  return is_name && !NounOf(name).empty() ? name : "";
}

std::string WithShortNames(std::string_view text, std::string_view project) {
  std::string result(text);
  for (const ResourceKind kind : {ResourceKind::kScene, ResourceKind::kJob, ResourceKind::kModel}) {
    const std::string prefix = fmt::format("projects/{}/{}/", project, WordsOf(kind).collection);
    for (size_t at = 0; (at = result.find(prefix, at)) != std::string::npos;) {
      result.erase(at, prefix.size());
      constexpr std::string_view kCheckpoints = "checkpoints/";
      const size_t slash = result.find('/', at);
      if (slash != std::string::npos &&
          result.compare(slash + 1, kCheckpoints.size(), kCheckpoints) == 0 &&
          IsResourceId(std::string_view(result).substr(at, slash - at))) {
        result.erase(slash + 1, kCheckpoints.size());
      }
    }
  }
  return result;
}

std::string ShortName(std::string_view name) {
  const std::vector<std::string_view> parts = SplitAtSlashes(name);
  const size_t n = parts.size();
  if (n >= 3 && parts[n - 2] == "checkpoints")
    return fmt::format("{}/{}", parts[n - 3], parts[n - 1]);
  return std::string(parts.back());
}

}  // namespace nerf
