#include "engine/field/parameters/update_count.h"

#include "common/status_macros.h"
#include "engine/field/files/metadata_reader.h"

namespace nerf {
namespace {

constexpr const char* kUpdatesKey = "step.updates";

}  // namespace

void SaveUpdateCount(uint32_t n_updates, TensorFile* file) {
  file->metadata[kUpdatesKey] = MetadataText(n_updates);
}

absl::StatusOr<uint32_t> LoadUpdateCount(const TensorFile& file) {
  MetadataReader reader(file);
  uint32_t n_updates = 0;
  reader.One<uint32_t>(kUpdatesKey, 0, UINT32_MAX, &n_updates);
  NERF_RETURN_IF_ERROR(reader.status);
  return n_updates;
}

}  // namespace nerf
