#include <exception>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/train/group/gloo/gloo_group.h"

// engine/train/group opens this library and looks this function up by name. Does not throw.
extern "C" __attribute__((visibility("default"))) void NerfNewGlooGroup(
    nerf::Rendezvous* rendezvous, const nerf::GlooOptions* options,
    absl::StatusOr<std::unique_ptr<nerf::Group>>* group) {
  try {
    *group = nerf::NewGlooGroup(rendezvous, *options);
  } catch (const std::exception& e) {
    *group = absl::UnavailableError(e.what());
  }
}
