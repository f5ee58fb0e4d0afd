#pragma once

#include <string>

namespace nerf {

// `export MODEL --viewer FILE`: writes a viewer file (engine/export/viewer_file.h).
struct ViewerFlags {
  std::string model, viewer, crop;  // crop: a box as ParseOwnBox reads it; empty: none
  int threads = 0;
  bool baked = false;    // a baked model, too; by itself where both are too large for phones
  bool dry_run = false;  // tells the size and writes nothing
  bool json = false;
};

// Prints what was written, or the error. Returns the exit code.
int RunViewerExport(const ViewerFlags& flags);

}  // namespace nerf
