#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf::protocol {

// What `nerf-engine pose --json` prints and writes, for the worker that runs it.

// How far it is.
struct Posing {
  uint32_t stage = 0, stages = 0;  // from 1
  std::string doing;
  uint32_t done = 0, of = 0;  // of 0: not known
  std::string unit;           // what they count: "photographs"
  double seconds = 0;
  double eta_seconds = 0;                 // 0: not known
  double matches_per_second = 0;          // 0 before the first
  std::string points = {}, cameras = {};  // as PoseSketch has them

  bool operator==(const Posing&) const = default;
};
std::string ToLine(const Posing& posing);

// The programs that it would run, of `--tools`.
struct PoseTools {
  std::string colmap, ffmpeg;  // versions; ffmpeg may be empty

  bool operator==(const PoseTools&) const = default;
};
std::string ToLine(const PoseTools& tools);

// A line of its output, of a failure its error; monostate for any other, such as a log, or the
// report, which pose.json has.
using PoseLine = std::variant<std::monostate, Posing, PoseTools, absl::Status>;
PoseLine ParsePoseLine(std::string_view line);

// The report, pose.json.
struct PosedPhoto {
  std::string name;  // as it was given
  std::string file;  // in the data set, "images/a.jpg"; empty if it is not there
  bool posed = false;
  std::string reason, words;  // why it is not posed, for programs and for people
};
struct PoseReportFile {
  uint32_t photographs = 0, usable = 0, posed = 0, points = 0;
  double reprojection_error = 0, parallax = 0;  // pixels, degrees
  std::vector<std::string> warnings, again;
  std::vector<PosedPhoto> photos;
};
// Errors: InvalidArgument.
absl::StatusOr<PoseReportFile> ParsePoseReport(std::string_view text);

}  // namespace nerf::protocol
