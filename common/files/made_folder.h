#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf {

// A folder for output. When it goes, the folders that Make created are removed again if they are
// empty, so that a command that fails before it writes leaves nothing behind.
class MadeFolder {
 public:
  // Creates `path` and the folders above it that are missing. Errors: InvalidArgument where
  // something else than a folder is in the way; those of mkdir.
  static absl::StatusOr<MadeFolder> Make(const std::string& path);
  ~MadeFolder();
  MadeFolder(MadeFolder&& other) noexcept;
  MadeFolder& operator=(MadeFolder&&) = delete;

 private:
  explicit MadeFolder(std::vector<std::string> made);

  std::vector<std::string> made_;  // the innermost first
};

}  // namespace nerf
