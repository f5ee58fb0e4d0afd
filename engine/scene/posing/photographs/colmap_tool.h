#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/child_process.h"

namespace nerf {

// The COLMAP that is installed, and what its flags are called: version 3.12 renamed some.
struct ColmapTool {
  std::string program;                               // path
  std::string version;                               // "3.8"
  std::string extraction_prefix = "SiftExtraction";  // of use_gpu and num_threads
  std::string matching_prefix = "SiftMatching";
  std::string fix_existing = "Mapper.fix_existing_images";
  std::string snapshots_every = "Mapper.snapshot_images_freq";
};

// Asks `program` (a path or a name) what it is. Errors: Unimplemented FEATURE_NOT_BUILT where there
// is none; FailedPrecondition where it is of a version whose flags are not known.
absl::StatusOr<ColmapTool> FindColmap(const std::string& program);

enum class ColmapStage { kExtract, kMatch, kMap, kRefine };

// What a stage is doing, in words: "extracting features".
std::string_view StageName(ColmapStage stage);

// Command lines, without limits. Photographs of one list share a lens.
struct ExtractOptions {
  std::string database, images, list;  // list: a file with one name a line
  int max_image_side = 2000, max_features = 4096, threads = 1;
  bool doubled = true;       // features of half a pixel, too: better poses, four times the work
  bool simple_lens = false;  // one distortion parameter, for lenses that few photographs show
  std::string model = {},
              params = {};  // of a lens that is known, as COLMAP calls them; empty: it is not
  std::string masks = {};   // folder of masks, as COLMAP names them; empty: none
};
std::vector<std::string> ExtractCommand(const ColmapTool& tool, const ExtractOptions& options);
// `pairs`: a file with two names a line; empty: all pairs.
std::vector<std::string> MatchCommand(const ColmapTool& tool, const std::string& database,
                                      const std::string& pairs, int threads);
struct MapOptions {
  std::string database, images, out;
  int threads = 1;
  bool relaxed = false;       // accepts fewer points and smaller angles
  bool known_lenses = false;  // which stay as they are
  std::string in = {};        // a model to go on with, whose cameras stay; empty: a new one
  // A folder for models of what is placed so far, one whenever so many more are; empty: none.
  std::string snapshots = {};
  int snapshot_every = 0;
};
inline constexpr int kMaxExtraParam = 100;  // of a lens in such a model; each parameter
std::vector<std::string> MapCommand(const ColmapTool& tool, const MapOptions& options);
inline constexpr int kMaxRefinements = 100;  // iterations of the command
std::vector<std::string> RefineCommand(const ColmapTool& tool, const std::string& in,
                                       const std::string& out);

// Finds the points of a model whose poses and lenses are known, from the database's features.
std::vector<std::string> TriangulateCommand(const ColmapTool& tool, const std::string& database,
                                            const std::string& images, const std::string& in,
                                            const std::string& out);
// Refines the poses of a model whose cameras are held together by rigs, which `config` describes.
std::vector<std::string> RefineRigCommand(const ColmapTool& tool, const std::string& in,
                                          const std::string& out, const std::string& config);

// The commands for somebody who runs COLMAP by hand where there is none: they copy the photographs
// of `source`, a folder or film, into the new folder `out`, find their poses and train.
std::string CommandsForCopying(const std::string& source, const std::string& out);

// How far a stage is, from a line that it printed; `of` is 0 where it is not known.
struct ColmapProgress {
  int done = 0, of = 0;
  bool operator==(const ColmapProgress&) const = default;
};
std::optional<ColmapProgress> ParseProgress(ColmapStage stage, std::string_view line);

// True where the mapper says that no two photographs could be joined.
bool FoundNoModel(const ChildProcessEnd& end);
// True where the triangulator has died since no point fits the poses and lenses that it was given.
bool FoundNoPoints(const ChildProcessEnd& end);

}  // namespace nerf
