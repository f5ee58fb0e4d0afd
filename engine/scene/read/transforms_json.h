#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scene/listed_views.h"
#include "nlohmann/json.hpp"

// Reading of the parts of transforms.json that data sets and camera files share. Every function
// adds the problems it finds to `out` and continues.
namespace nerf {

// Collects the problems of one JSON file.
struct JsonProblems {
  std::string file;
  Problems* problems;

  void Add(std::string_view field, std::string_view message) const {
    problems->Add(file, field, message);
  }
};

constexpr size_t kMaxFrames = 100'000;
constexpr uint64_t kMaxJsonBytes = uint64_t{64} << 20;

// Parses JSON as RepairJson makes it; a syntax error becomes a problem with its line and field.
// Nullopt unless the result is an object. Of the object and its frames, fields that are null are
// left out. NaN, infinity and numbers beyond a double are texts in the result, with a warning: they
// are errors where they are read.
std::optional<nlohmann::json> ParseJsonObject(std::string_view text, const JsonProblems& out,
                                              std::vector<std::string>* warnings = nullptr);

// The array `frames`, or nullptr after adding a problem (missing, not an array, empty, too long).
const nlohmann::json* FindFrames(const nlohmann::json& root, const JsonProblems& out);

// A number, also one that is written as a text; nullopt for anything else.
std::optional<double> NumberOf(const nlohmann::json& value);

// object[key] as a finite number. Nullopt if absent; also nullopt, with *is_broken set, after
// adding a problem of field prefix + key.
std::optional<double> ReadNumber(const nlohmann::json& object, const char* key,
                                 std::string_view prefix, const JsonProblems& out, bool* is_broken);

// Intrinsics of a file (prefix "") or of a frame (prefix "frames[3]."). Absent ones are taken from
// `inherited`.
Intrinsics ReadIntrinsics(const nlohmann::json& object, const Intrinsics& inherited,
                          std::string_view prefix, const JsonProblems& out);

// Whether the object has any intrinsics that Blender's files lack.
bool HasFullIntrinsics(const nlohmann::json& object);

// frame.time, 0 to 1 over the capture; 0 where there is none. Nullopt after adding a problem.
std::optional<float> ReadTime(const nlohmann::json& frame, std::string_view prefix,
                              const JsonProblems& out);

// frame.transform_matrix. *uniform_scale is the scale that was removed from the rotation.
std::optional<Pose> ReadPose(const nlohmann::json& frame, std::string_view prefix,
                             const JsonProblems& out, double* uniform_scale);

}  // namespace nerf
