#include "engine/pose/pose_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/pose/label_placer.h"
#include "engine/scene/draw_text.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

using Vector = std::array<double, 3>;

constexpr uint64_t kBareViewFeatures = 100;  // fewer: the photograph shows bare walls or sky
constexpr uint64_t kFewPoints = 60;          // fewer: the pose is uncertain
constexpr double kLowParallax = 2.5;         // degrees; depths are uncertain below it
constexpr double kHighError = 2;             // pixels
constexpr double kWideGap = 40;              // degrees between neighbors on a ring of cameras
constexpr size_t kMaxListed = 12;            // suggestions

// Of each photograph: those that it was matched with, and the number of points that agree.
using Neighbors = std::map<std::string, std::map<std::string, uint64_t>>;

Neighbors NeighborsIn(const ColmapDatabase& matches) {
  Neighbors neighbors;
  for (const ColmapPair& pair : matches.pairs) {
    neighbors[pair.first][pair.second] = pair.n_inliers;
    neighbors[pair.second][pair.first] = pair.n_inliers;
  }
  return neighbors;
}

// The lens of most photographs that are posed.
int CommonLens(const std::vector<Photo>& photos, const PosedModel& model) {
  std::map<int, int> counts;
  for (const Photo& photo : photos) {
    if (model.photos.contains(photo.file)) ++counts[photo.lens];
  }
  int best = -1, most = 0;
  for (const auto& [lens, count] : counts) {
    if (count > most) best = lens, most = count;
  }
  return best;
}

class Explainer {
 public:
  Explainer(const std::vector<Photo>& photos, const PosedModel& model,
            const std::vector<std::vector<std::string>>& others, const ColmapDatabase& matches)
      : model_(model),
        others_(others),
        matches_(matches),
        neighbors_(NeighborsIn(matches)),
        common_lens_(CommonLens(photos, model)) {
    for (const Photo& photo : photos) names_[photo.file] = photo.name;
  }

  // Sets reason and words of a photograph that is not posed.
  void Explain(const Photo& photo, PhotoOutcome* outcome) const {
    const auto say = [&](const char* reason, const std::string& words) {
      outcome->reason = reason;
      outcome->words = words;
    };
    if (!photo.error.empty()) return say("unreadable", "cannot be read: " + photo.error);
    if (!photo.double_of.empty()) {
      return say("double", "a double of " + photo.double_of + ": left out");
    }
    if (photo.is_blurred) {
      return say("blur", absl::StrFormat("blurred: sharpness %.2f", photo.sharpness));
    }
    const auto features = matches_.n_features.find(photo.file);
    const uint64_t n_features = features == matches_.n_features.end() ? 0 : features->second;
    if (n_features < kBareViewFeatures) {
      return say("no texture", absl::StrCat("only ", n_features,
                                            " points to match: bare walls, sky or darkness"));
    }
    const bool is_other_lens = common_lens_ >= 0 && photo.lens != common_lens_;
    const std::string lens =
        is_other_lens ? absl::StrCat("; taken through another lens (", LensWords(photo), ")") : "";
    ExplainByMatches(photo, is_other_lens, lens, say);
  }

 private:
  template <typename Say>
  void ExplainByMatches(const Photo& photo, bool is_other_lens, const std::string& lens,
                        const Say& say) const {
    const auto found = neighbors_.find(photo.file);
    std::string best, unposed;
    uint64_t most = 0;
    if (found != neighbors_.end()) {
      for (const auto& [file, n_inliers] : found->second) {
        if (!model_.photos.contains(file)) {
          unposed = file;
        } else if (n_inliers > most) {
          best = file, most = n_inliers;
        }
      }
    }
    const auto name = [&](const std::string& file) {
      const auto known = names_.find(file);
      return known == names_.end() ? file : known->second;
    };
    if (most > 0) {
      const std::string words =
          absl::StrCat("shares ", most, " points with ", name(best), ", too few to place it", lens);
      return say(is_other_lens ? "another lens" : "no overlap", words);
    }
    for (const auto& other : others_) {
      if (std::find(other.begin(), other.end(), photo.file) == other.end()) continue;
      return say("another place",
                 absl::StrCat("belongs to ", other.size(),
                              " photographs that fit each other but none of these", lens));
    }
    if (!unposed.empty()) {
      return say("another place", absl::StrCat("shares points with ", name(unposed),
                                               " but with none that is posed", lens));
    }
    say(is_other_lens ? "another lens" : "no overlap",
        absl::StrCat("shares nothing with any other photograph", lens));
  }

  const PosedModel& model_;
  const std::vector<std::vector<std::string>>& others_;
  const ColmapDatabase& matches_;
  const Neighbors neighbors_;
  const int common_lens_;
  std::map<std::string, std::string> names_;
};

Vector CenterOf(const PosedModel& model) {
  std::array<std::vector<double>, 3> values;
  for (const ColmapPoint& point : model.points) {
    for (size_t i = 0; i < 3; ++i) values[i].push_back(point.position[i]);
  }
  Vector center{};
  for (size_t i = 0; i < 3; ++i) {
    if (values[i].empty()) continue;
    const auto middle = values[i].begin() + static_cast<int64_t>(values[i].size() / 2);
    std::nth_element(values[i].begin(), middle, values[i].end());
    center[i] = *middle;
  }
  return center;
}

// Two axes across `up`.
std::pair<Vector, Vector> AxesAcross(const Vector& up) {
  const Vector other = std::abs(up[0]) < 0.9 ? Vector{1, 0, 0} : Vector{0, 1, 0};
  const auto cross = [](const Vector& a, const Vector& b) {
    return Vector{a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  };
  Vector right = cross(other, up);
  const double length = std::hypot(right[0], right[1], right[2]);
  for (double& r : right) r /= length;
  return {right, cross(up, right)};
}

double Dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vector Minus(const Vector& a, const Vector& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

// Where a ring of cameras around the scene is open.
void AddGaps(const PoseReport& report, const PosedModel& model, std::vector<std::string>* again) {
  const Vector up = UpOf(model);
  if (Dot(up, up) < 0.5 || model.photos.size() < 8) return;
  const Vector center = CenterOf(model);
  const auto [right, front] = AxesAcross(up);
  std::vector<std::pair<double, std::string>> angles;
  for (const PhotoOutcome& photo : report.photos) {
    const auto found = model.photos.find(photo.file);
    if (!photo.posed || found == model.photos.end()) continue;
    const Vector offset = Minus(found->second.center, center);
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

constexpr int kNumberScale = 2;  // pixels, of a glyph's dots

// Drawing on a white square.
class Canvas {
 public:
  explicit Canvas(int side) {
    image_.width = image_.height = side;
    image_.n_channels = 3;
    image_.pixels.assign(static_cast<size_t>(side) * side * 3, 255);
  }

  void Dot(double x, double y, const std::array<uint8_t, 3>& color) {
    if (!(x >= 0 && y >= 0 && x < image_.width && y < image_.height)) return;  // NaN, too
    const int column = static_cast<int>(x), row = static_cast<int>(y);
    std::copy(color.begin(), color.end(),
              image_.pixels.begin() + (static_cast<int64_t>(row) * image_.width + column) * 3);
  }
  void Line(double x0, double y0, double x1, double y1, const std::array<uint8_t, 3>& color) {
    const double length = std::max({1.0, std::abs(x1 - x0), std::abs(y1 - y0)});
    if (!(length < 4.0 * image_.width)) return;
    for (double i = 0; i <= length; ++i) {
      Dot(x0 + (x1 - x0) * i / length, y0 + (y1 - y0) * i / length, color);
    }
  }
  // A filled square around the point.
  void Square(double x, double y, int radius, const std::array<uint8_t, 3>& color) {
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = -radius; dx <= radius; ++dx) Dot(x + dx, y + dy, color);
    }
  }
  void Number(const LabelBox& box, int number, const std::array<uint8_t, 3>& color) {
    DrawText(std::to_string(number), static_cast<int>(box.left), static_cast<int>(box.top),
             kNumberScale, color, &image_);
  }
  ImageU8 Take() { return std::move(image_); }
  int side() const { return image_.width; }

 private:
  ImageU8 image_;
};

// A camera in the picture from above: pixels, and its viewing direction with the part across the
// picture only, so that it is short for a camera that looks down.
struct MappedCamera {
  int number = 0;
  double x = 0, y = 0, forward_x = 0, forward_y = 0;
};

// Wedges with the apex, a dot, at the camera. A camera that looks straight down or up has no
// direction in the picture and is a dot alone. Numbers without room are left out.
void DrawCameras(const std::vector<MappedCamera>& cameras, Canvas* canvas) {
  constexpr double kLength = 26, kHalfWidth = 7;  // pixels, of a wedge
  constexpr double kLeastForward = 0.15;
  constexpr std::array<uint8_t, 3> kBlue = {20, 60, 220}, kLightBlue = {190, 205, 250},
                                   kRed = {200, 30, 30}, kGray = {150, 150, 150};
  LabelPlacer placer(canvas->side());
  std::vector<const MappedCamera*> wedges;
  for (const MappedCamera& camera : cameras) {
    for (int i = -2; i <= 2; i += 2) {
      for (int j = -2; j <= 2; j += 2) placer.Keep(camera.x + i, camera.y + j);
    }
    if (std::hypot(camera.forward_x, camera.forward_y) >= kLeastForward) wedges.push_back(&camera);
  }
  const auto to = [&](const MappedCamera& camera, double ahead, double aside) {
    const double length = std::hypot(camera.forward_x, camera.forward_y);
    const double x = camera.forward_x / length, y = camera.forward_y / length;
    return std::pair<double, double>{camera.x + ahead * x - aside * y,
                                     camera.y + ahead * y + aside * x};
  };
  // All of the light insides first: they hide no outline.
  for (const MappedCamera* camera : wedges) {
    for (double aside = -kHalfWidth; aside <= kHalfWidth; aside += 0.5) {
      const auto [x, y] = to(*camera, kLength, aside);
      canvas->Line(camera->x, camera->y, x, y, kLightBlue);
    }
  }
  for (const MappedCamera* camera : wedges) {
    const auto [x0, y0] = to(*camera, kLength, -kHalfWidth);
    const auto [x1, y1] = to(*camera, kLength, kHalfWidth);
    canvas->Line(camera->x, camera->y, x0, y0, kBlue);
    canvas->Line(camera->x, camera->y, x1, y1, kBlue);
    for (double part = 0.2; part <= 1; part += 0.1) {
      for (const double side : {-kHalfWidth, 0.0, kHalfWidth}) {
        const auto [x, y] = to(*camera, part * kLength, part * side);
        placer.Spare(x, y);
      }
    }
  }
  for (const MappedCamera& camera : cameras) canvas->Square(camera.x, camera.y, 2, kBlue);
  for (const MappedCamera& camera : cameras) {
    const std::string number = std::to_string(camera.number);
    const auto box = placer.Place(camera.x, camera.y, -camera.forward_x, -camera.forward_y,
                                  TextWidth(number, kNumberScale), TextHeight(kNumberScale));
    if (!box.has_value()) continue;
    // A number that had to go further away has a line to its camera.
    constexpr double kNear = 9;
    const double x = std::clamp(camera.x, box->left, box->right);
    const double y = std::clamp(camera.y, box->top, box->bottom);
    if (std::hypot(x - camera.x, y - camera.y) > kNear) {
      canvas->Line(camera.x, camera.y, x, y, kGray);
      canvas->Square(camera.x, camera.y, 2, kBlue);
    }
    canvas->Number(*box, camera.number, kRed);
  }
}

// Lower and upper bound of most of the values.
std::pair<double, double> BoundsOfMost(std::vector<double> values) {
  if (values.empty()) return {0, 0};
  std::sort(values.begin(), values.end());
  const size_t cut = values.size() / 20;
  return {values[cut], values[values.size() - 1 - cut]};
}

}  // namespace

PoseReport MakePoseReport(const std::vector<Photo>& photos, const PosedModel& model,
                          const std::vector<std::vector<std::string>>& others,
                          const ColmapDatabase& matches) {
  PoseReport report;
  const Explainer explainer(photos, model, others, matches);
  for (const Photo& photo : photos) {
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
      explainer.Explain(photo, &outcome);
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

ImageU8 PictureFromAbove(const PoseReport& report, const PosedModel& model) {
  constexpr int kSide = 1000, kMargin = 50;
  Canvas canvas(kSide);
  if (model.photos.empty()) return canvas.Take();
  Vector up = UpOf(model);
  if (Dot(up, up) < 0.5) up = {0, -1, 0};
  const auto axes = AxesAcross(up);
  const Vector right = axes.first, front = axes.second;
  std::vector<double> xs, ys;
  for (const ColmapPoint& point : model.points) {
    xs.push_back(Dot(point.position, right));
    ys.push_back(Dot(point.position, front));
  }
  auto [x0, x1] = BoundsOfMost(xs);
  auto [y0, y1] = BoundsOfMost(ys);
  for (const auto& [file, photo] : model.photos) {
    const double x = Dot(photo.center, right), y = Dot(photo.center, front);
    if (xs.empty()) x0 = x1 = x, y0 = y1 = y, xs.push_back(x);
    x0 = std::min(x0, x), x1 = std::max(x1, x);
    y0 = std::min(y0, y), y1 = std::max(y1, y);
  }
  const double extent = std::max({x1 - x0, y1 - y0, 1e-9});
  const double scale = (kSide - 2 * kMargin) / extent;
  const double left = (x0 + x1) / 2, middle = (y0 + y1) / 2;
  const auto place = [&](const Vector& at) {
    return std::pair<double, double>{kSide / 2.0 + (Dot(at, right) - left) * scale,
                                     kSide / 2.0 - (Dot(at, front) - middle) * scale};
  };
  for (const ColmapPoint& point : model.points) {
    const auto [x, y] = place(point.position);
    canvas.Dot(x, y, point.color);
  }
  std::vector<MappedCamera> cameras;
  for (size_t i = 0; i < report.photos.size(); ++i) {
    const auto found = model.photos.find(report.photos[i].file);
    if (found == model.photos.end()) continue;
    const auto [x, y] = place(found->second.center);
    const Vector& forward = found->second.axes[2];
    cameras.push_back({static_cast<int>(i) + 1, x, y, Dot(forward, right), -Dot(forward, front)});
  }
  DrawCameras(cameras, &canvas);
  return canvas.Take();
}

}  // namespace nerf
