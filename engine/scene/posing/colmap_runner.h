#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/child_process.h"
#include "engine/scene/posing/photographs/colmap_database.h"
#include "engine/scene/posing/photographs/colmap_tool.h"
#include "engine/scene/posing/photographs/photographs.h"
#include "engine/scene/posing/pose_options.h"
#include "engine/scene/posing/pose_progress.h"
#include "engine/scene/posing/work_folder.h"

namespace nerf {

// Features of a photograph, and its side in pixels while they are looked for. A few features of a
// small picture are the coarse ones, which suffice to find out which photographs overlap.
inline constexpr int kFewFeatures = 512, kFewFeaturesSide = 1000;
inline constexpr int kFeatures = 3000, kFeaturesSide = 2000;
inline constexpr size_t kPairsPerPhoto = 12;  // that are matched with all features
inline constexpr size_t kPairsPerList = 32;   // between two lines of progress

// A lens as COLMAP knows it: "PINHOLE" and "400,400,320,240".
struct KnownLens {
  std::string model, params;
};

// What features are looked for in. Names are paths; `images` holds Photo::file.
struct ExtractTask {
  std::string database, images;
  std::string masks;  // as COLMAP names them; empty: none
  int features = 0;   // of a photograph
  int side = 0;       // pixels of the longer side, while they are looked for
  bool doubled = true;
  std::map<int, KnownLens> lenses = {};  // by Photo::lens; others are found
};

// Runs COLMAP in a work folder, shows how far it is and stops it. All are borrowed for its life.
// Used from one thread.
class ColmapRunner {
 public:
  ColmapRunner(const ColmapTool* tool, const WorkFolder* work, const PoseOptions* options,
               PoseStages* stages)
      : tool_(*tool), work_(*work), options_(*options), stages_(*stages) {}

  int threads() const { return options_.pool->n_threads(); }

  // Runs one process.
  absl::StatusOr<ChildProcessEnd> Run(const std::vector<std::string>& command,
                                      const std::function<void(std::string_view line)>& on_line);
  // The same, and shows its progress. `before` is added to what it has done; of 0: as it says.
  absl::StatusOr<ChildProcessEnd> Run(ColmapStage stage, const std::vector<std::string>& command,
                                      int before, int of);
  // The same; its failure is an error.
  absl::Status RunOrFail(ColmapStage stage, const std::vector<std::string>& command, int before = 0,
                         int of = 0);

  // Features of the photographs that have a file: a run for each lens, since COLMAP takes all
  // photographs of one run for one camera's.
  absl::Status Extract(const std::vector<Photo>& photos, const ExtractTask& task);
  absl::Status MatchAll(const std::string& database);
  // `per_list`: pairs between two lines of progress. Without a pair nothing is done.
  absl::Status MatchPairs(const std::string& database, const std::vector<ColmapPair>& pairs,
                          size_t per_list);

 private:
  const ColmapTool& tool_;
  const WorkFolder& work_;
  const PoseOptions& options_;
  PoseStages& stages_;
};

}  // namespace nerf
