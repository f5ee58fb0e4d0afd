#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// What `nerfd --list-backups` prints: a line for each backup of a data folder, the oldest first.
// Errors: NotFound without the folder; those of ListBackups.
absl::StatusOr<std::string> BackupsText(const std::string& data_dir);

// What `nerfd --check-backup` prints of a whole backup. Errors: those of VerifyBackup.
absl::StatusOr<std::string> BackupCheckText(const std::string& from);

}  // namespace nerf
