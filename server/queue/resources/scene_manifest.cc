#include "server/queue/resources/scene_manifest.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/logging.h"
#include "server/queue/resources/request_check.h"

namespace nerf {
namespace {

constexpr size_t kMaxPathPartLength = 255;  // limit of file systems

// What is wrong with a path; empty when it is valid.
std::string_view PathProblem(std::string_view path) {
  if (path.empty()) return "must not be empty";
  if (path.size() > kMaxScenePathLength) return "is longer than 512 bytes";
  if (!IsPlainText(path)) return "must be UTF-8 without control characters";
  if (path.find('\\') != std::string_view::npos) return "must separate parts with '/'";
  if (path.front() == '/') return "must be relative";
  size_t depth = 0;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty()) return "must not have empty parts";
    if (part == "." || part == "..") return "must not have '.' or '..' as a part";
    if (part.size() > kMaxPathPartLength) return "has a part longer than 255 bytes";
    if (++depth > kMaxScenePathDepth) return "is deeper than 16 parts";
    if (slash == std::string_view::npos) return {};
    path.remove_prefix(slash + 1);
  }
}

// A path that is safe to print, for messages.
std::string Quoted(std::string_view path) {
  constexpr size_t kMaxShown = 80;
  return LogValue(path.substr(0, kMaxShown));
}

}  // namespace

absl::Status CheckManifest(const std::vector<SceneFileRecord>& files) {
  constexpr size_t kMaxProblems = 100;
  if (files.empty() || files.size() > kMaxSceneFiles) {
    return InvalidFieldsError(
        {{"files", fmt::format("must be 1 to {} files, not {}", kMaxSceneFiles, files.size())}});
  }
  Problems problems;
  const auto report = [&](size_t i, std::string_view member, std::string_view message) {
    if (problems.size() < kMaxProblems)
      problems.Add(fmt::format("files[{}].{}", i, member), message);
  };
  std::set<std::string_view> paths;
  for (size_t i = 0; i < files.size(); ++i) {
    const SceneFileRecord& file = files[i];
    if (const std::string_view problem = PathProblem(file.path); !problem.empty()) {
      report(i, "path", fmt::format("{} {}", Quoted(file.path), problem));
    } else if (!paths.insert(file.path).second) {
      report(i, "path", fmt::format("{} is twice in the manifest", Quoted(file.path)));
    }
    if (!IsSha256Hex(file.blob.sha256)) {
      report(i, "blob.sha256", "must be 64 lower-case hexadecimal digits");
    }
    if (file.blob.byte_size > kMaxSceneFileSize) {
      report(i, "blob.size_bytes", fmt::format("must be at most {}", kMaxSceneFileSize));
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    // A file cannot also be another file's folder.
    const std::string_view path = files[i].path;
    for (size_t slash = path.find('/'); slash != std::string_view::npos;
         slash = path.find('/', slash + 1)) {
      if (slash > 0 && paths.contains(path.substr(0, slash))) {
        report(i, "path",
               fmt::format("{} is in a folder that is also listed as a file", Quoted(path)));
        break;
      }
    }
  }
  return problems.Result();
}

}  // namespace nerf
