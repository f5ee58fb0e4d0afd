#include "server/main/backup_reports.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/time/time.h"
#include "common/counted.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "server/store/backup.h"

namespace nerf {
namespace {

std::string BlobsText(uint64_t n_blobs, uint64_t n_bytes) {
  return fmt::format("{}, {:.1f} MB", Counted(n_blobs, "blob"), static_cast<double>(n_bytes) / 1e6);
}

}  // namespace

absl::StatusOr<std::string> BackupsText(const std::string& data_dir) {
  std::error_code error;
  if (!std::filesystem::is_directory(data_dir, error))
    return absl::NotFoundError(fmt::format("there is no data folder {}", data_dir));
  NERF_ASSIGN_OR_RETURN(const std::vector<ListedBackup> backups, ListBackups(data_dir));
  if (backups.empty()) return fmt::format("no backups in {}/backups\n", data_dir);
  std::string text;
  for (const ListedBackup& backup : backups) {
    text += fmt::format("{}  {}  {}{}\n",
                        absl::FormatTime("%Y-%m-%d %H:%M:%SZ", backup.taken, absl::UTCTimeZone()),
                        backup.id, BlobsText(backup.n_blobs, backup.blob_bytes),
                        backup.is_whole ? "" : "  (unfinished)");
  }
  return text;
}

absl::StatusOr<std::string> BackupCheckText(const std::string& from) {
  NERF_ASSIGN_OR_RETURN(const BackupSummary summary, VerifyBackup(from));
  return fmt::format("{} is whole: {} read and compared\n", from,
                     BlobsText(summary.n_blobs, summary.blob_bytes));
}

}  // namespace nerf
