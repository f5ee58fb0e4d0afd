#pragma once

#include <string>
#include <string_view>

#include "common/problems.h"
#include "nerf/v1/export_job.pb.h"

namespace CLI {
class App;
}

namespace nerf {

// What the flags of an export ask for.
struct ExportFlags {
  std::string out;      // --out
  v1::ExportSpec spec;  // without its source and path
};

// Adds --out and the flags of ExportOptions. out_help: of --out. capitals: help begins with them.
void AddExportFlags(CLI::App& command, std::string_view out_help, bool capitals,
                    ExportFlags* flags);

// What is wrong with the flags, by flag: "--triangles", "has no effect on POINTS". Sets the format
// by the ending of --out where --format was not given, and the file of splats where it was
// `splats`. path_flag: the program's flag of the path.
Problems CheckExportFlags(std::string_view path_flag, ExportFlags* flags);

}  // namespace nerf
