#include "engine/scene/posing/pose_reasons.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace nerf {
namespace {

constexpr uint64_t kBareViewFeatures = 100;  // fewer: the photograph shows bare walls or sky

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

void Say(const char* reason, const std::string& words, PhotoOutcome* outcome) {
  outcome->reason = reason;
  outcome->words = words;
}

}  // namespace

PoseReasons::PoseReasons(const std::vector<Photo>& photos, const PosedModel& model,
                         const std::vector<std::vector<std::string>>& others,
                         const ColmapDatabase& matches)
    : model_(model), others_(others), matches_(matches), common_lens_(CommonLens(photos, model)) {
  for (const ColmapPair& pair : matches.pairs) {
    neighbors_[pair.first][pair.second] = pair.n_inliers;
    neighbors_[pair.second][pair.first] = pair.n_inliers;
  }
  for (const Photo& photo : photos) names_[photo.file] = photo.name;
}

void PoseReasons::Explain(const Photo& photo, PhotoOutcome* outcome) const {
  if (!photo.error.empty()) return Say("unreadable", "cannot be read: " + photo.error, outcome);
  if (!photo.double_of.empty())
    return Say("double", "a double of " + photo.double_of + ": left out", outcome);
  if (photo.is_blurred)
    return Say("blur", absl::StrFormat("blurred: sharpness %.2f", photo.sharpness), outcome);
  const auto features = matches_.n_features.find(photo.file);
  const uint64_t n_features = features == matches_.n_features.end() ? 0 : features->second;
  if (n_features < kBareViewFeatures) {
    return Say("no texture",
               absl::StrCat("only ", n_features, " points to match: bare walls, sky or darkness"),
               outcome);
  }
  ExplainByMatches(photo, outcome);
}

void PoseReasons::ExplainByMatches(const Photo& photo, PhotoOutcome* outcome) const {
  const bool is_other_lens = common_lens_ >= 0 && photo.lens != common_lens_;
  const std::string lens =
      is_other_lens ? absl::StrCat("; taken through another lens (", LensWords(photo), ")") : "";
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
  const char* const apart = is_other_lens ? "another lens" : "no overlap";
  if (most > 0) {
    return Say(
        apart,
        absl::StrCat("shares ", most, " points with ", name(best), ", too few to place it", lens),
        outcome);
  }
  for (const auto& other : others_) {
    if (std::find(other.begin(), other.end(), photo.file) == other.end()) continue;
    return Say("another place",
               absl::StrCat("belongs to ", other.size(),
                            " photographs that fit each other but none of these", lens),
               outcome);
  }
  if (!unposed.empty()) {
    return Say(
        "another place",
        absl::StrCat("shares points with ", name(unposed), " but with none that is posed", lens),
        outcome);
  }
  Say(apart, absl::StrCat("shares nothing with any other photograph", lens), outcome);
}

}  // namespace nerf
