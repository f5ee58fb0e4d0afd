#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"

namespace nerf::protocol {

// What `nerf-engine export --json` prints, for the worker that runs it.

// How far it is.
struct Exporting {
  std::string step;
  double share = 0;  // of the step, 0 to 1

  bool operator==(const Exporting&) const = default;
};

// How large the file will be; said at most once, before the work.
struct ExportBytes {
  double bytes = 0;
  bool is_bound = false;  // at most that many; else about as many

  bool operator==(const ExportBytes&) const = default;
};

// What it has made.
struct ExportDone {
  std::string file;
  uint32_t vertices = 0, triangles = 0;  // or points, splats, cameras in vertices
  std::string axes, words;               // for people; empty of a viewer
  double seconds = 0;

  bool operator==(const ExportDone&) const = default;
};

// A line of its output, of a failure its error; monostate for any other, such as a log.
using ExportLine = std::variant<std::monostate, Exporting, ExportBytes, ExportDone, absl::Status>;
ExportLine ParseExportLine(std::string_view line);

}  // namespace nerf::protocol
