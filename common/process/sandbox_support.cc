#include "common/process/sandbox_support.h"

#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace nerf {

int LandlockVersion() {
  const long version =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version > 0 ? static_cast<int>(version) : 0;
}

std::string DescribeSandboxSupport() {
  const int version = LandlockVersion();
  const unsigned action = SECCOMP_RET_ERRNO;
  const bool has_seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  return absl::StrCat(version > 0 ? absl::StrCat("Landlock ", version)
                                  : "no Landlock in this kernel, so engines may read any file",
                      has_seccomp ? ", seccomp" : ", no seccomp");
}

}  // namespace nerf
