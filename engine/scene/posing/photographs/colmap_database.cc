#include "engine/scene/posing/photographs/colmap_database.h"

#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr int64_t kMaxImageId = 2147483647;  // COLMAP's: a pair's id is first * this + second

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

absl::Status ForEachRow(sqlite3* database, const std::string& path, const char* query,
                        const std::function<void(sqlite3_stmt*)>& row) {
  const auto damaged = [&] {
    return absl::DataLossError(absl::StrCat(path, ": ", sqlite3_errmsg(database)));
  };
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(database, query, -1, &prepared, nullptr) != SQLITE_OK) return damaged();
  const std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement(prepared);
  int step = sqlite3_step(prepared);
  for (; step == SQLITE_ROW; step = sqlite3_step(prepared)) row(prepared);
  return step == SQLITE_DONE ? absl::OkStatus() : damaged();
}

uint64_t Count(sqlite3_stmt* row, int column) {
  return static_cast<uint64_t>(std::max<int64_t>(0, sqlite3_column_int64(row, column)));
}

absl::StatusOr<std::unique_ptr<sqlite3, CloseDatabase>> OpenForReading(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  }
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
  std::unique_ptr<sqlite3, CloseDatabase> database(opened);
  if (code != SQLITE_OK) {
    return absl::DataLossError(absl::StrCat(path, ": ", sqlite3_errstr(code)));
  }
  return database;
}

}  // namespace

absl::StatusOr<ColmapDatabase> ReadColmapDatabase(const std::string& path) {
  NERF_ASSIGN_OR_RETURN(const auto database, OpenForReading(path));
  sqlite3* const opened = database.get();
  ColmapDatabase result;
  std::map<int64_t, std::string> names;
  NERF_RETURN_IF_ERROR(ForEachRow(opened, path,
                                  "SELECT i.image_id, i.name, COALESCE(k.rows, 0) FROM images i "
                                  "LEFT JOIN keypoints k ON k.image_id = i.image_id",
                                  [&](sqlite3_stmt* row) {
                                    const auto* text =
                                        reinterpret_cast<const char*>(sqlite3_column_text(row, 1));
                                    if (text == nullptr) return;
                                    names[sqlite3_column_int64(row, 0)] = text;
                                    result.n_features[text] = Count(row, 2);
                                  }));
  NERF_RETURN_IF_ERROR(
      ForEachRow(opened, path, "SELECT pair_id, rows FROM two_view_geometries WHERE rows > 0",
                 [&](sqlite3_stmt* row) {
                   const int64_t pair = sqlite3_column_int64(row, 0);
                   const auto second = names.find(pair % kMaxImageId);
                   const auto first = names.find(pair / kMaxImageId);
                   if (first == names.end() || second == names.end() || first == second) return;
                   result.pairs.push_back({std::min(first->second, second->second),
                                           std::max(first->second, second->second), Count(row, 1)});
                 }));
  std::sort(result.pairs.begin(), result.pairs.end(), [](const ColmapPair& a, const ColmapPair& b) {
    return std::tie(a.first, a.second) < std::tie(b.first, b.second);
  });
  return result;
}

absl::StatusOr<std::map<std::string, ColmapIds>> ReadColmapIds(const std::string& path) {
  NERF_ASSIGN_OR_RETURN(const auto database, OpenForReading(path));
  std::map<std::string, ColmapIds> ids;
  NERF_RETURN_IF_ERROR(ForEachRow(
      database.get(), path, "SELECT name, image_id, camera_id FROM images", [&](sqlite3_stmt* row) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, 0));
        if (text == nullptr) return;
        ids[text] = {static_cast<uint32_t>(Count(row, 1)), static_cast<uint32_t>(Count(row, 2))};
      }));
  return ids;
}

}  // namespace nerf
