#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/scene/posing/photographs/colmap_database.h"
#include "engine/scene/posing/photographs/photographs.h"
#include "engine/scene/posing/photographs/posed_model.h"
#include "engine/scene/posing/pose_report.h"

namespace nerf {

// Why photographs are not posed. Borrows what it is made of, as MakePoseReport takes it.
class PoseReasons {
 public:
  PoseReasons(const std::vector<Photo>& photos, const PosedModel& model,
              const std::vector<std::vector<std::string>>& others, const ColmapDatabase& matches);

  // Sets reason and words of a photograph that is not posed.
  void Explain(const Photo& photo, PhotoOutcome* outcome) const;

 private:
  // Of one that can be used and has features.
  void ExplainByMatches(const Photo& photo, PhotoOutcome* outcome) const;

  const PosedModel& model_;
  const std::vector<std::vector<std::string>>& others_;
  const ColmapDatabase& matches_;
  // Of each photograph: those that it was matched with, and the number of points that agree.
  std::map<std::string, std::map<std::string, uint64_t>> neighbors_;
  int common_lens_;
  std::map<std::string, std::string> names_;  // for people, by file
};

}  // namespace nerf
