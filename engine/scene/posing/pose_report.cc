#include "engine/scene/posing/pose_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/scene/posing/pose_axes.h"
#include "engine/scene/posing/pose_reasons.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

constexpr uint64_t kFewPoints = 60;   // fewer: the pose is uncertain
constexpr double kLowParallax = 2.5;  // degrees; depths are uncertain below it
constexpr double kHighError = 2;      // pixels
constexpr double kWideGap = 40;       // degrees between neighbors on a ring of cameras
constexpr size_t kMaxListed = 12;     // suggestions

PoseVector CenterOf(const PosedModel& model) {
  std::array<std::vector<double>, 3> values;
  for (const ColmapPoint& point : model.points) {
    for (size_t i = 0; i < 3; ++i) values[i].push_back(point.position[i]);
  }
  PoseVector center{};
  for (size_t i = 0; i < 3; ++i) {
    if (values[i].empty()) continue;
    const auto middle = values[i].begin() + static_cast<int64_t>(values[i].size() / 2);
    std::nth_element(values[i].begin(), middle, values[i].end());
    center[i] = *middle;
  }
  return center;
}

// Where a ring of cameras around the scene is open.
void AddGaps(const PoseReport& report, const PosedModel& model, std::vector<std::string>* again) {
  const PoseVector up = UpOf(model);
  if (Dot(up, up) < 0.5 || model.photos.size() < 8) return;
  const PoseVector center = CenterOf(model);
  const auto [right, front] = PerpendicularAxes(up);
  std::vector<std::pair<double, std::string>> angles;
  for (const PhotoOutcome& photo : report.photos) {
    const auto found = model.photos.find(photo.file);
    if (!photo.posed || found == model.photos.end()) continue;
    const PoseVector offset = Minus(found->second.center, center);
    angles.push_back({std::atan2(Dot(offset, front), Dot(offset, right)) * 180 / M_PI, photo.name});
  }
  std::sort(angles.begin(), angles.end());
  double covered = 0;
  std::vector<std::string> gaps;
  for (size_t i = 0; i < angles.size(); ++i) {
    const auto& next = angles[(i + 1) % angles.size()];
    const double step =
        i + 1 < angles.size() ? next.first - angles[i].first : next.first + 360 - angles[i].first;
    if (step < kWideGap) {
      covered += step;
    } else {
      gaps.push_back(absl::StrFormat("between %s and %s: %.0f degrees of the ring are open",
                                     angles[i].second, next.second, step));
    }
  }
  // Half a ring or less was meant as it is: its opening is no gap.
  if (covered < 200) return;
  again->insert(again->end(), gaps.begin(), gaps.end());
}

// What to photograph again where no photograph could be posed, by the reasons of most.
void AddAdviceOnNone(PoseReport* report) {
  std::map<std::string, size_t> counts;
  for (const PhotoOutcome& photo : report->photos) ++counts[photo.reason];
  const auto add = [&](const std::string& advice) { report->again.push_back(advice); };
  const size_t n = report->photos.size();
  const auto is_common = [&](const std::string& reason) { return 3 * counts[reason] >= n; };
  if (is_common("unreadable")) add("nothing: save the pictures that cannot be read as JPEG or PNG");
  if (is_common("blur")) add("everything, in more light or with a steadier hand");
  if (is_common("no texture")) {
    add("everything, with more light and with things that have a pattern in each picture");
  }
  if (is_common("double")) add("everything, from other places: most pictures are doubles");
  const bool overlaps = is_common("no overlap") || is_common("another place") ||
                        is_common("another lens") || report->again.empty();
  if (!overlaps) return;
  add("everything, closer together: each photograph should show two thirds of what the one before "
      "shows");
  add("everything, moving sideways between photographs: turning on the spot shows no depth");
}

void AddSuggestions(const PosedModel& model, PoseReport* report) {
  if (report->n_posed == 0) return AddAdviceOnNone(report);
  std::string before;
  size_t n_missing = 0;
  const auto add = [&](const std::string& after) {
    if (n_missing == 0) return;
    const std::string count =
        n_missing == 1 ? "one photograph" : absl::StrCat(n_missing, " photographs");
    const std::string where = before.empty()  ? absl::StrCat("before ", after)
                              : after.empty() ? absl::StrCat("after ", before)
                                              : absl::StrCat("between ", before, " and ", after);
    report->again.push_back(
        absl::StrCat(where, ": ", count, " there could not be used; take more, closer together"));
    n_missing = 0;
  };
  for (const PhotoOutcome& photo : report->photos) {
    if (photo.posed) {
      add(photo.name);
      before = photo.name;
    } else if (photo.reason == "blur" || photo.reason == "no overlap") {
      ++n_missing;
    }
  }
  if (!before.empty()) add("");
  for (const PhotoOutcome& photo : report->photos) {
    if (photo.posed && photo.n_points < kFewPoints) {
      report->again.push_back(
          absl::StrCat("around ", photo.name, ": its pose has only ", photo.n_points, " points"));
    }
  }
  AddGaps(*report, model, &report->again);
  if (report->n_posed > 1 && report->parallax_degrees < kLowParallax) {
    report->again.push_back(absl::StrFormat(
        "everything, moving more between photographs: rays to a point meet at %.1f degrees "
        "(median), too few to tell depth",
        report->parallax_degrees));
  }
  if (report->again.size() > kMaxListed) {
    const size_t n_more = report->again.size() - kMaxListed;
    report->again.resize(kMaxListed);
    report->again.push_back(absl::StrCat("and ", n_more, " places more"));
  }
}

}  // namespace

PoseReport MakePoseReport(const std::vector<Photo>& photos, const PosedModel& model,
                          const std::vector<std::vector<std::string>>& others,
                          const ColmapDatabase& matches) {
  PoseReport report;
  const PoseReasons reasons(photos, model, others, matches);
  for (const Photo& photo : photos) {
    if (!photo.note.empty() && std::find(report.warnings.begin(), report.warnings.end(),
                                         photo.note) == report.warnings.end()) {
      report.warnings.push_back(photo.note);
    }
    PhotoOutcome outcome;
    outcome.name = photo.name;
    outcome.file = photo.file;
    outcome.sharpness = photo.sharpness;
    const auto posed = model.photos.find(photo.file);
    outcome.posed = posed != model.photos.end();
    const bool is_usable = photo.error.empty() && photo.double_of.empty() && !photo.is_blurred;
    report.n_usable += is_usable;
    if (outcome.posed) {
      outcome.n_points = posed->second.n_points;
      ++report.n_posed;
      report.n_usable_posed += is_usable;
      if (photo.is_blurred) {
        report.warnings.push_back(
            absl::StrFormat("%s is posed, but blurred (sharpness %.2f): it will blur the scene",
                            photo.name, photo.sharpness));
      }
    } else {
      reasons.Explain(photo, &outcome);
    }
    report.photos.push_back(std::move(outcome));
  }
  report.lenses = model.lenses;
  report.n_points = model.points.size();
  report.n_other_models = others.size();
  report.reprojection_error = model.reprojection_error;
  report.parallax_degrees = model.parallax_degrees;
  if (!others.empty()) {
    report.warnings.push_back(
        absl::StrCat("the photographs fell into ", others.size() + 1,
                     " groups that COLMAP could not join; the largest counts"));
  }
  if (report.reprojection_error > kHighError) {
    report.warnings.push_back(
        absl::StrFormat("points lie %.1f pixels from where they were seen (mean): things moved, or "
                        "lenses were mixed",
                        report.reprojection_error));
  }
  AddSuggestions(model, &report);
  return report;
}

void SayTooFew(PoseReport* report) {
  const auto of_use = [](const PhotoOutcome& photo) { return !photo.file.empty(); };
  const auto n = std::count_if(report->photos.begin(), report->photos.end(), of_use);
  for (PhotoOutcome& photo : report->photos) {
    if (!of_use(photo)) continue;
    photo.reason = "too few";
    photo.words = absl::StrCat("one of ", n, ": too few to find where they were taken");
  }
  report->again.insert(report->again.begin(),
                       absl::StrCat(n, " different photographs that can be read; at least ",
                                    kMinPosed, " are needed, and some dozens are a good start"));
}

void SayOneSpot(PoseReport* report) {
  for (PhotoOutcome& photo : report->photos) {
    const bool has_cause = photo.reason == "double" || photo.reason == "unreadable" ||
                           photo.reason == "blur" || photo.reason == "no texture";
    if (photo.posed || has_cause) continue;
    photo.reason = "one spot";
    photo.words = "was taken from the spot of the others: it shows no depth";
  }
  report->again = {
      "the photographs were all taken from one spot, so they show no depth: move between "
      "photographs, by a step or more"};
}

std::string PoseReportText(const PoseReport& report) {
  std::string text =
      absl::StrFormat("%d of %d photographs posed", report.n_posed, report.photos.size());
  if (report.n_posed > 0) {
    absl::StrAppendFormat(&text,
                          " · %d points · reprojection error %.2f pixels · parallax %.1f degrees\n",
                          report.n_points, report.reprojection_error, report.parallax_degrees);
    for (const std::string& lens : report.lenses) absl::StrAppend(&text, "lens: ", lens, "\n");
  } else {
    text += "\n";
  }
  for (const std::string& warning : report.warnings) {
    absl::StrAppend(&text, "warn   ", warning, "\n");
  }
  bool has_title = false;
  for (const PhotoOutcome& photo : report.photos) {
    if (photo.posed) continue;
    if (!has_title) text += "not posed:\n";
    has_title = true;
    absl::StrAppend(&text, "  ", photo.name, "  ", photo.words, "\n");
  }
  if (!report.again.empty()) text += "photograph again:\n";
  for (const std::string& place : report.again) absl::StrAppend(&text, "  ", place, "\n");
  return text;
}

std::string PosedListText(const PoseReport& report) {
  std::string text;
  for (size_t i = 0; i < report.photos.size(); ++i) {
    if (!report.photos[i].posed) continue;
    if (text.empty()) text = "posed, by their number in pose.png:\n";
    absl::StrAppendFormat(&text, "  %4d  %s\n", i + 1, report.photos[i].name);
  }
  return text;
}

std::string PoseReportJson(const PoseReport& report, const std::string& out) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["event"] = "done";
  json["out"] = out;
  json["photographs"] = report.photos.size();
  json["usable"] = report.n_usable;
  json["posed"] = report.n_posed;
  json["points"] = report.n_points;
  json["reprojection_error_pixels"] = report.reprojection_error;
  json["parallax_degrees"] = report.parallax_degrees;
  json["other_models"] = report.n_other_models;
  json["lenses"] = report.lenses;
  json["warnings"] = report.warnings;
  json["again"] = report.again;
  json["photos"] = Json::array();
  for (size_t i = 0; i < report.photos.size(); ++i) {
    const PhotoOutcome& photo = report.photos[i];
    Json entry;
    entry["number"] = i + 1;
    entry["name"] = photo.name;
    if (!photo.file.empty()) entry["file"] = "images/" + photo.file;
    entry["posed"] = photo.posed;
    if (photo.posed) entry["points"] = photo.n_points;
    if (!photo.reason.empty()) entry["reason"] = photo.reason;
    if (!photo.words.empty()) entry["words"] = photo.words;
    if (photo.sharpness > 0) entry["sharpness"] = photo.sharpness;
    json["photos"].push_back(std::move(entry));
  }
  json["colmap"] = report.colmap_version;
  json["seconds"] = report.seconds;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nerf
