#include "worker/engine/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "common/process/sandbox_support.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

// Newer than the headers of Debian 12.
constexpr uint64_t kAccessTruncate = uint64_t{1} << 14;         // version 3
constexpr uint64_t kAccessIoctl = uint64_t{1} << 15;            // version 5
constexpr uint64_t kNetBindTcp = 1, kNetConnectTcp = 2;         // version 4
constexpr uint64_t kScopeAbstractSocket = 1, kScopeSignal = 2;  // version 6
struct RulesetAttr {
  uint64_t handled_access_fs, handled_access_net, scoped;
};

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                            LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                            LANDLOCK_ACCESS_FS_REMOVE_DIR | kAccessTruncate;
// What a rule for a file, not a folder, may hold.
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                              LANDLOCK_ACCESS_FS_EXECUTE | kAccessTruncate | kAccessIoctl;

// Every access to files that this version of Landlock knows.
uint64_t HandledAccess(int version) {
  uint64_t access = (uint64_t{1} << 13) - 1;  // version 1
  if (version >= 2) access |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) access |= kAccessTruncate;
  if (version >= 5) access |= kAccessIoctl;
  return access;
}

absl::Status Allow(int ruleset, const std::string& path, uint64_t access) {
  const UniqueFd file(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file.ok()) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES) return absl::OkStatus();
    return ErrnoToStatus(errno, "open " + path);
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return ErrnoToStatus(errno, "stat " + path);
  if (!S_ISDIR(status.st_mode)) access &= kOfFiles;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = file.get();
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    return ErrnoToStatus(errno, "allow " + path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> MakeLandlockRuleset(const LandlockPaths& paths) {
  const int version = LandlockVersion();
  const uint64_t handled = HandledAccess(version);
  RulesetAttr attr{handled, 0, 0};
  size_t size = sizeof(uint64_t);
  if (version >= 4) {
    attr.handled_access_net = paths.tcp ? 0 : kNetBindTcp | kNetConnectTcp;
    size = 2 * sizeof(uint64_t);
  }
  if (version >= 6) {
    attr.scoped = kScopeAbstractSocket | kScopeSignal;
    size = sizeof(attr);
  }
  UniqueFd ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attr, size, 0)));
  if (!ruleset.ok()) return ErrnoToStatus(errno, "make a Landlock ruleset");
  const auto allow_all = [&](const std::vector<std::string>& files, uint64_t access) {
    for (const std::string& path : files) {
      NERF_RETURN_IF_ERROR(Allow(ruleset.get(), path, access & handled));
    }
    return absl::OkStatus();
  };
  NERF_RETURN_IF_ERROR(allow_all(paths.read, kRead));
  NERF_RETURN_IF_ERROR(allow_all(paths.write, kRead | kWrite));
  NERF_RETURN_IF_ERROR(allow_all(paths.execute, kRead | LANDLOCK_ACCESS_FS_EXECUTE));
  NERF_RETURN_IF_ERROR(
      allow_all(paths.devices, kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | kAccessIoctl));
  return ruleset;
}

bool EnforceLandlock(int ruleset) { return syscall(SYS_landlock_restrict_self, ruleset, 0) == 0; }

}  // namespace nerf
