#include "engine/train/group/open_nccl.h"

#include <cstdint>
#include <string>

#include "common/error_reason.h"
#include "engine/train/group/library_symbol.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Exported by the library with C linkage. Does not throw.
using NcclFactory = void (*)(Group* group, absl::StatusOr<std::unique_ptr<DeviceGroup>>* made);

// Whether all ranks say so.
bool AllRanks(Group* group, bool here) {
  int64_t n = here ? 1 : 0;
  Reduce(group, std::span(&n, 1));
  return n == group->n_ranks();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceGroup>> OpenNcclDeviceGroup(Group* group) {
  std::string error = "another rank has none";
  void* const symbol = LibrarySymbol("libnerf_nccl.so", "NerfNewNcclDeviceGroup", &error);
  if (!AllRanks(group, symbol != nullptr)) {
    return WithReason(absl::UnimplementedError(fmt::format("no NCCL: {}", error)),
                      reason::kFeatureNotBuilt);
  }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> made = absl::InternalError("no group was made");
  reinterpret_cast<NcclFactory>(symbol)(group, &made);
  if (AllRanks(group, made.ok())) return made;
  if (!made.ok()) return made.status();
  return absl::UnavailableError("NCCL does not connect another rank");
}

}  // namespace nerf
