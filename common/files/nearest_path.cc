#include "common/files/nearest_path.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/edit_distance.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxEntries = 10'000;  // of a folder that are looked at

std::vector<std::string> EntriesOf(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder.empty() ? fs::path(".") : folder, error), end;
       !error && it != end && names.size() < kMaxEntries; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  return names;
}

std::string Suggestion(const std::string& path) {
  const std::string nearest = NearestPath(path);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

}  // namespace

std::string NearestPath(const std::string& path) {
  fs::path found;
  bool is_replaced = false;
  for (const fs::path& part : fs::path(path)) {
    std::error_code ignored;
    const fs::path next = found / part;
    if (is_replaced || fs::exists(next, ignored)) {
      found = next;
      continue;
    }
    const std::string nearest = NearestWord(part.string(), EntriesOf(found));
    if (nearest.empty()) return "";
    found /= nearest;
    is_replaced = true;
  }
  std::error_code ignored;
  return is_replaced && fs::exists(found, ignored) ? found.string() : "";
}

absl::Status NoSuchFolder(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, ": there is no such folder", Suggestion(path)));
}

absl::Status WithNearestPath(const absl::Status& status, const std::string& path) {
  if (!absl::IsNotFound(status)) return status;
  absl::Status result =
      absl::NotFoundError(absl::StrCat(std::string(status.message()), Suggestion(path)));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { result.SetPayload(type, payload); });
  return result;
}

}  // namespace nerf
