#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scene/listed_views.h"
#include "nlohmann/json.hpp"

// Pieces of the transforms.json shape that data sets and camera files share. Every function reports
// what it finds wrong to `out` and goes on.
namespace nerf {

// Where problems of one JSON file go.
struct JsonProblems {
  std::string file;
  std::vector<SceneProblem>* problems;

  void Add(std::string_view field, std::string_view message) const {
    AddProblem(problems, file, field, message);
  }
};

constexpr size_t kMaxFrames = 100'000;
constexpr uint64_t kMaxJsonBytes = uint64_t{64} << 20;

// Parses JSON with comments; a syntax error becomes a problem with its line and field. Nullopt
// unless the result is an object.
std::optional<nlohmann::json> ParseJsonObject(std::string_view text, const JsonProblems& out);

// The array `frames`, or nullptr after a problem (missing, no array, empty, too many).
const nlohmann::json* FindFrames(const nlohmann::json& root, const JsonProblems& out);

// object[key] as a finite number. Nullopt when absent, or after a problem with field prefix + key,
// when *is_broken is set.
std::optional<double> ReadNumber(const nlohmann::json& object, const char* key,
                                 std::string_view prefix, const JsonProblems& out, bool* is_broken);

// Intrinsics of a file ("" prefix) or of a frame ("frames[3]."), over those inherited from the
// file.
Intrinsics ReadIntrinsics(const nlohmann::json& object, const Intrinsics& inherited,
                          std::string_view prefix, const JsonProblems& out);

// True when the object has any intrinsics that Blender's files have not.
bool HasFullIntrinsics(const nlohmann::json& object);

// frame.transform_matrix. *uniform_scale is the scale that was taken out of the rotation.
std::optional<Pose> ReadPose(const nlohmann::json& frame, std::string_view prefix,
                             const JsonProblems& out, double* uniform_scale);

}  // namespace nerf
