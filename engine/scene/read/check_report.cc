#include "engine/scene/read/check_report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/read/llff_reader.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

constexpr size_t kMaxModelsInText = 3;

const char* BackgroundOf(const SceneDescription& description, std::string_view requested) {
  if (requested == "white") return "white";
  if (requested == "black") return "black";
  return description.has_alpha || requested == "random"
             ? "random for training, white for evaluation"
             : "black";
}

size_t ViewCount(const SceneDescription& description) {
  return description.train.size() + description.test.size();
}

std::string CameraModelsText(const std::vector<std::string>& models) {
  if (models.size() > kMaxModelsInText) return absl::StrCat(models.size(), " kinds of camera");
  return absl::StrJoin(models, ", ");
}

// The name of the data set's format. LLFF's poses are trained on as COLMAP's are, from which they
// were made.
const char* FormatOf(const SceneDescription& description) {
  return description.source == kLlffFile ? "llff" : SceneFlavorName(description.geometry.flavor);
}

// Whether there were too many pixels to decode all.
bool IsCheckedInPart(const SceneDescription& description) {
  return description.n_checked > 0 &&
         static_cast<size_t>(description.n_checked) < ViewCount(description);
}

}  // namespace

std::string CheckReportText(const SceneDescription& description, std::string_view background) {
  std::string text;
  if (description.source.empty()) {
    text = "no data set";
  } else {
    absl::StrAppendFormat(&text, "%s · %s · %d of %d images posed and present",
                          FormatOf(description), description.source, ViewCount(description),
                          description.n_listed);
    if (IsCheckedInPart(description))
      absl::StrAppendFormat(&text, " · %d of them decoded", description.n_checked);
    if (description.n_missing > 0) absl::StrAppend(&text, ", ", description.n_missing, " missing");
    if (!description.camera_models.empty()) {
      absl::StrAppend(&text, " · ", CameraModelsText(description.camera_models));
    }
    if (ViewCount(description) > 0) {
      absl::StrAppendFormat(&text, " · %d train, %d test (%s) · %.1f MiB decoded · background %s",
                            description.train.size(), description.test.size(), description.split,
                            std::ldexp(static_cast<double>(description.image_bytes), -20),
                            BackgroundOf(description, background));
    }
    if (const Vec3d& origin = description.geometry.frame.origin; origin != Vec3d{0, 0, 0})
      absl::StrAppend(&text, " · about the origin ", OriginText(origin));
  }
  text += description.ok()
              ? " · OK\n"
              : absl::StrCat(" · ", description.problems.size(),
                             description.problems.size() == 1 ? " problem\n" : " problems\n");
  for (const Problem& problem : description.problems) {
    absl::StrAppend(&text, "error  ", ToString(problem), "\n");
  }
  for (const std::string& warning : description.warnings) {
    absl::StrAppend(&text, "warn   ", Printable(warning), "\n");
  }
  return text;
}

std::string CheckReportJson(const SceneDescription& description) {
  nlohmann::ordered_json report;
  report["event"] = "done";
  report["ok"] = description.ok();
  report["flavor"] = description.source.empty() ? nlohmann::ordered_json(nullptr)
                                                : nlohmann::ordered_json(FormatOf(description));
  report["source"] = description.source;
  report["listed"] = description.n_listed;
  report["missing"] = description.n_missing;
  report["decoded"] = description.n_checked;
  report["unposed"] = description.n_unposed;
  report["train"] = description.train.size();
  report["test"] = description.test.size();
  report["split"] = description.split;
  report["camera_models"] = description.camera_models;
  report["image_bytes"] = description.image_bytes;
  report["has_alpha"] = description.has_alpha;
  report["background_train"] = description.has_alpha ? "random" : "black";
  report["background_eval"] = description.has_alpha ? "white" : "black";
  report["levels"] = description.geometry.n_levels;
  if (const Vec3d& origin = description.geometry.frame.origin; origin != Vec3d{0, 0, 0})
    report["origin"] = origin;
  report["problems"] = nlohmann::ordered_json::array();
  for (const Problem& problem : description.problems) {
    report["problems"].push_back(
        {{"file", problem.file}, {"field", problem.field}, {"message", problem.message}});
  }
  report["warnings"] = description.warnings;
  // replace: names from files need not be UTF-8.
  return report.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace nerf
