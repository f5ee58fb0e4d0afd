#include "engine/train/group/open_gloo.h"

#include <string>

#include "common/error_reason.h"
#include "engine/train/group/library_symbol.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Exported by the library with C linkage. Does not throw.
using GlooFactory = void (*)(Rendezvous* rendezvous, const GlooOptions* options,
                             absl::StatusOr<std::unique_ptr<Group>>* group);

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> OpenGlooGroup(Rendezvous* rendezvous,
                                                     const GlooOptions& options) {
  std::string error;
  void* const symbol = LibrarySymbol("libnerf_gloo.so", "NerfNewGlooGroup", &error);
  if (symbol == nullptr) {
    return WithReason(absl::UnimplementedError(fmt::format(
                          "ranks need Gloo: build with libgloo-dev installed ({})", error)),
                      reason::kFeatureNotBuilt);
  }
  absl::StatusOr<std::unique_ptr<Group>> group = absl::InternalError("no group was made");
  reinterpret_cast<GlooFactory>(symbol)(rendezvous, &options, &group);
  return group;
}

}  // namespace nerf
