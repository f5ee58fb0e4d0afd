#pragma once

#include <string>

#include "engine/export/files/export_axes.h"
#include "engine/export/files/volume.h"

namespace nerf {

// A file of OpenVDB with two grids: `density` (float, 1 / own unit) and `Cd` (vec3s, linear light),
// both active where the volume holds something and 0 elsewhere. Requires: sides of at most 4096
// points. Source: format 224 of OpenVDB 10 (Museth 2013), trees 5-4-3 with active values alone.
std::string VolumeVdb(const Volume& volume, const ExportAxes& axes);

}  // namespace nerf
