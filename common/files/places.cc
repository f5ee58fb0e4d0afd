#include "common/files/places.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace nerf {
namespace {

// The variable's value if it is an absolute path, else `fallback`.
std::string FolderFrom(const char* variable, std::string fallback) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value == '/' ? value : std::move(fallback);
}

std::string Home() { return FolderFrom("HOME", "/var/tmp"); }

}  // namespace

std::string OwnBinaryDir() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : self.parent_path().string();
}

std::string ProgramBesideThis(std::string_view name) {
  return (std::filesystem::path(OwnBinaryDir()) / name).string();
}

std::string DefaultDataDir() {
  return FolderFrom("XDG_DATA_HOME", Home() + "/.local/share") + "/nerfd";
}

std::string DefaultCacheDir() {
  return FolderFrom("XDG_CACHE_HOME", Home() + "/.cache") + "/nerf-worker";
}

std::string DefaultStateDir() {
  return FolderFrom("XDG_STATE_HOME", Home() + "/.local/state") + "/nerfd";
}

std::string DefaultConfigDir() {
  return FolderFrom("XDG_CONFIG_HOME", Home() + "/.config") + "/nerfd";
}

}  // namespace nerf
