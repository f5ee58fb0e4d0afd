#include "engine/group/open_gloo.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "common/error_reason.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr char kLibrary[] = "libnerf_gloo.so";
constexpr char kFactory[] = "NerfNewGlooGroup";

// Exported by the library with C linkage. Does not throw.
using GlooFactory = void (*)(Rendezvous* rendezvous, const GlooOptions* options,
                             absl::StatusOr<std::unique_ptr<Group>>* group);

std::string LibraryPath() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return kLibrary;
  return (program.parent_path().parent_path() / "lib" / kLibrary).string();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> OpenGlooGroup(Rendezvous* rendezvous,
                                                     const GlooOptions& options) {
  const std::string path = LibraryPath();
  // Never closed: its threads live as long as the process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = library != nullptr ? dlsym(library, kFactory) : nullptr;
  if (symbol == nullptr) {
    return WithReason(absl::UnimplementedError(fmt::format(
                          "ranks need {}: build with libgloo-dev installed ({})", path, dlerror())),
                      reason::kFeatureNotBuilt);
  }
  absl::StatusOr<std::unique_ptr<Group>> group = absl::InternalError("no group was made");
  reinterpret_cast<GlooFactory>(symbol)(rendezvous, &options, &group);
  return group;
}

}  // namespace nerf
