#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/problems.h"
#include "engine/base/export_bytes.h"
#include "nerf/v1/export_job.pb.h"

namespace nerf {

using ExportFormat = v1::ExportSpec::Format;

// A field of ExportSpec beside its source, the same for server, nerfctl and nerf-engine.
struct ExportOption {
  std::string_view field;
  std::string_view flag;   // of both programs; empty: each has its own
  std::string_view value;  // what the flag takes, for its help; empty: nothing
  std::string_view help;   // begins in lower case; of numbers, limits and default follow
  uint32_t formats;        // that honor it: bit `format`
  uint32_t min = 0, max = 0, fallback = 0;  // of numbers; fallback: what 0 means
};
std::span<const ExportOption> ExportOptions();

// Whether a format honors a field of ExportOptions.
bool Honors(ExportFormat format, std::string_view field);
bool IsMesh(ExportFormat format);
// Of a path for another program.
bool IsPath(ExportFormat format);
// Of Gaussians, in any of their files.
bool IsSplats(ExportFormat format);

// What is wrong with all of a spec but its source and the cameras of its path: fields
// ("triangles", "box.size[1]") and why. What the format does not honor is refused, never ignored.
Problems ProblemsOf(const v1::ExportSpec& spec);
// With every default filled in that the format honors. Requires: no problems.
v1::ExportSpec WithDefaults(v1::ExportSpec spec);

// How a format is written.
struct ExportFileKind {
  ExportFormat format;
  std::string_view ending;  // of a file of this format alone: ".glb"; empty: there is none
  std::string_view name;    // in a folder: "mesh.glb"
  std::string_view noun;    // for people: "mesh"
};
std::span<const ExportFileKind> ExportFileKinds();
// Requires: a known format.
const ExportFileKind& FileKindOf(ExportFormat format);
// The format that the ending of a path says; FORMAT_UNSPECIFIED for others.
ExportFormat FormatOfFile(std::string_view path);
// The format of splats that it says; SPLATS, which is PLY, for others.
ExportFormat SplatsFormatOfFile(std::string_view path);
// Requires: IsSplats.
SplatFile SplatFileOf(ExportFormat format);

// The words of --format or --frame, by the name of the field, in the order of their numbers from 1
// on: "nerfstudio-path".
std::vector<std::string> ExportWords(std::string_view field);
std::string ExportWord(ExportFormat format);
std::string ExportWord(v1::ExportSpec::Frame frame);

// The flags of `nerf-engine export` that ask for the spec. cameras: file of its path, which is read
// if it has one.
std::vector<std::string> ExportArguments(const v1::ExportSpec& spec, const std::string& cameras);

}  // namespace nerf
