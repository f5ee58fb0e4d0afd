#pragma once

#include <string>
#include <vector>

#include "engine/scene/posing/photographs/colmap_database.h"
#include "engine/scene/posing/photographs/photographs.h"
#include "engine/scene/posing/photographs/posed_model.h"

namespace nerf {

// The result for one photograph.
struct PhotoOutcome {
  std::string name;  // as the user knows it
  std::string file;  // name in images/; empty if it was left out
  bool posed = false;
  uint64_t n_points = 0;  // points of the model that it shows
  double sharpness = 0;
  std::string reason;  // of one that is not posed: "blur", "no overlap", "another place",
                       // "another lens", "double", "no texture", "unreadable", "one spot",
                       // "too few"; empty otherwise
  std::string words;   // the same for people, with the facts
};

// The result of a search for poses.
struct PoseReport {
  std::vector<PhotoOutcome> photos;
  std::vector<std::string> lenses;
  size_t n_usable = 0;  // readable, sharp, no doubles
  size_t n_posed = 0;   // of all
  size_t n_usable_posed = 0;
  size_t n_points = 0;
  size_t n_other_models = 0;  // that COLMAP could not join to this one
  double reprojection_error = 0, parallax_degrees = 0;
  std::vector<std::string> again;     // what to photograph again
  std::vector<std::string> warnings;  // the poses can still be used
  std::string colmap_version;
  double seconds = 0;
};

// With fewer photographs there is no search.
constexpr size_t kMinPosed = 3;

// Makes the report. `others`: the photographs of each further model that the mapper made.
PoseReport MakePoseReport(const std::vector<Photo>& photos, const PosedModel& model,
                          const std::vector<std::vector<std::string>>& others,
                          const ColmapDatabase& matches);

// Gives the photographs that are not posed the reason "one spot", but for those that are of no use
// anyhow, and says what to do.
void SayOneSpot(PoseReport* report);

// Says of those that could be used that they are fewer than kMinPosed.
void SayTooFew(PoseReport* report);

// For people; ends with a newline.
std::string PoseReportText(const PoseReport& report);
// The posed photographs with their numbers, which count all photographs of the report from 1; ends
// with a newline. Empty if nothing is posed.
std::string PosedListText(const PoseReport& report);
// One JSON object without newline, {"event":"done","posed":50,...}.
std::string PoseReportJson(const PoseReport& report, const std::string& out);

}  // namespace nerf
