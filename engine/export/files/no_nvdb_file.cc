#include "engine/export/files/nvdb_file.h"

namespace nerf {

absl::Status CanWriteNanoVdb() {
  return absl::UnimplementedError(
      "this nerf-engine was built without NanoVDB (libnanovdb-dev); nanovdb_convert makes a .nvdb "
      "of a .vdb");
}

absl::StatusOr<std::string> VolumeNanoVdb(const Volume& /*volume*/, const ExportAxes& /*axes*/) {
  return CanWriteNanoVdb();
}

}  // namespace nerf
