#include "worker/files/scene_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_replace.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "worker/base/call_result.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxPathBytes = 512;

// Error of a local file: WORKER_EXHAUSTED, or Internal.
absl::Status FileError(const std::error_code& error, const std::string& action) {
  const absl::Status status = AsOwnError(ErrnoToStatus(error.value(), action));
  if (absl::IsResourceExhausted(status)) return status;
  return absl::InternalError(status.message());
}

}  // namespace

absl::Status CheckScenePath(std::string_view path) {
  const auto bad = [&](std::string_view problem) {
    return absl::InvalidArgumentError(fmt::format("scene file \"{}\": {}", path, problem));
  };
  if (path.empty() || path.size() > kMaxPathBytes) return bad("must have 1 to 512 bytes");
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\') {
      return bad("must not hold control characters or backslashes");
    }
  }
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return bad("must stay inside the scene");
    if (slash == std::string_view::npos) return absl::OkStatus();
    path.remove_prefix(slash + 1);
  }
}

absl::Status LinkFile(const std::string& source, const std::string& target) {
  std::error_code error;
  fs::create_hard_link(source, target, error);
  if (!error) return absl::OkStatus();
  if (error == std::errc::file_exists) {
    return absl::InvalidArgumentError(fmt::format("{} is listed twice", target));
  }
  fs::copy_file(source, target, error);
  return error ? FileError(error, "copy to " + target) : absl::OkStatus();
}

absl::Status MakeFolders(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error == std::errc::not_a_directory) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a file has the name of one of its folders", folder));
  }
  return error ? FileError(error, "make " + folder) : absl::OkStatus();
}

absl::Status LayOutScene(const SceneManifest& files, const std::string& folder, BlobCache& cache,
                         std::stop_token stop) {
  for (const v1::SceneManifestEntry& file : files) {
    NERF_RETURN_IF_ERROR(CheckScenePath(file.path()));
  }
  NERF_RETURN_IF_ERROR(MakeFolders(folder));
  for (const v1::SceneManifestEntry& file : files) {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    const absl::StatusOr<std::string> blob = cache.Fetch(file.blob(), /*pin=*/true, stop);
    if (!blob.ok()) return Prefixed(file.path(), blob.status());
    const fs::path target = fs::path(folder) / file.path();
    absl::Status linked = MakeFolders(target.parent_path().string());
    if (linked.ok()) linked = LinkFile(*blob, target.string());
    cache.Unpin(file.blob().sha256());
    if (!linked.ok()) return Prefixed(file.path(), linked);
  }
  return absl::OkStatus();
}

std::string WithoutFolder(const std::string& text, const std::string& folder) {
  std::error_code error;
  std::string left_out = text;
  // As it is named, and as programs may call it.
  const fs::path absolute = fs::absolute(folder, error);
  for (const std::string& known :
       {absolute.string(), fs::weakly_canonical(absolute, error).string(), folder}) {
    if (known.empty()) continue;
    left_out = absl::StrReplaceAll(left_out, {{known + "/scene/", ""},
                                              {known + "/scene: ", ""},
                                              {known + "/scene", "the scene"},
                                              {known + "/", ""}});
  }
  return left_out;
}

std::string WithoutPaths(std::string_view text) {
  constexpr std::string_view kEnds = " \t\n'\"`,;:()<>[]|=";
  std::string cut;
  while (!text.empty()) {
    const bool begins =
        text.front() == '/' && (cut.empty() || kEnds.find(cut.back()) != kEnds.npos);
    const std::string_view word = text.substr(0, begins ? text.find_first_of(kEnds) : 1);
    const size_t slash =
        begins && word.size() > 1 ? word.find_last_of('/', word.size() - 2) + 1 : 0;
    cut += word.substr(slash);
    text.remove_prefix(word.size());
  }
  return cut;
}

absl::Status WithoutFolder(const absl::Status& error, const std::string& folder) {
  CallResult result = ToCallResult(error);
  result.message = WithoutFolder(result.message, folder);
  // Not about the user's own files.
  if (result.code == absl::StatusCode::kInternal) result.message = WithoutPaths(result.message);
  return ToStatus(result);
}

absl::StatusOr<std::string> CheckInsideFolder(const std::string& folder, const std::string& path) {
  const auto refuse = [&] {
    return absl::PermissionDeniedError(
        fmt::format("the engine named \"{}\", which is no file inside its folder", path));
  };
  if (path.find('\0') != std::string::npos) return refuse();
  std::error_code error;
  const fs::path base = fs::canonical(folder, error);
  if (error) return refuse();
  if (!fs::is_regular_file(fs::symlink_status(path, error)) || error) return refuse();
  const fs::path canonical = fs::canonical(path, error);
  if (error) return refuse();
  const std::string prefix = base.string() + "/";
  if (canonical.string().compare(0, prefix.size(), prefix) != 0) return refuse();
  return canonical.string();
}

}  // namespace nerf
