#include "engine/train/group/library_symbol.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "fmt/format.h"

namespace nerf {

void* LibrarySymbol(const char* name, const char* symbol, std::string* error) {
  std::string path = name;
  std::error_code unreadable;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  if (!unreadable) path = (program.parent_path().parent_path() / "lib" / name).string();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const found = library != nullptr ? dlsym(library, symbol) : nullptr;
  if (found == nullptr) *error = fmt::format("{}: {}", path, dlerror());
  return found;
}

}  // namespace nerf
