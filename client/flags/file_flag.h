#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace nerf {

// OK if the folder that a flag's file is written to exists. Errors: InvalidArgument that names the
// flag.
inline absl::Status CheckFolderOfFile(std::string_view flag, const std::string& file) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(file, error).parent_path();
  if (std::filesystem::is_directory(folder, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: there is no folder {}", flag, folder.string()));
}

}  // namespace nerf
