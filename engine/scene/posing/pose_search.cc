#include "engine/scene/posing/pose_search.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/files/made_folder.h"
#include "common/process/child_failure.h"
#include "common/process/child_process.h"
#include "common/status_macros.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/colmap_runner.h"
#include "engine/scene/posing/match_groups.h"
#include "engine/scene/posing/photographs/colmap_tool.h"
#include "engine/scene/posing/photographs/one_spot.h"
#include "engine/scene/posing/photographs/panorama_rig.h"
#include "engine/scene/posing/pose_costs.h"
#include "engine/scene/posing/pose_files.h"
#include "engine/scene/posing/pose_picture.h"
#include "engine/scene/posing/work_folder.h"
#include "engine/scene/read/colmap_model.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

// Of a face: a panorama has eight of them, and all pairs of faces are looked at.
constexpr int kFaceFeatures = 1200;
constexpr int kManyFeatures = 10'000, kManyFeaturesSide = 3200;
// Beyond this, all pairs with all features would take hours.
constexpr size_t kMaxAllPairs = 45'000;  // 300 photographs
constexpr uint64_t kMaxFileBytes = uint64_t{64} << 30;

// How much is looked for; an effort follows where the one before posed too few photographs.
struct Effort {
  int features, side;
  size_t pairs_per_photo;  // 0: all that overlap
  bool all_pairs;          // whether they overlap or not
  bool relaxed;            // thresholds of the mapper
  bool new_features;       // others than the effort before
};
constexpr Effort kEfforts[] = {
    {kFeatures, kFeaturesSide, kPairsPerPhoto, false, false, true},
    {kFeatures, kFeaturesSide, 0, true, true, false},
    {kManyFeatures, kManyFeaturesSide, 0, true, true, true},
};

// Of an effort and the refinement at the end.
int StagesOf(const Effort& effort) { return effort.new_features ? 4 : 3; }
constexpr int kCoarseStages = 2;  // features, their matches
constexpr char kFewDatabase[] = "few.db";
constexpr size_t kCoarsePairsPerList = 1024;
// Snapshots of one mapping, which the page draws. Each is read whole, so large models have none.
constexpr int kSnapshots = 12;
constexpr size_t kMaxSnapshotPhotos = 1000;

class PoseSearch {
 public:
  PoseSearch(const ColmapTool& tool, const WorkFolder& work, const PoseOptions& options)
      : tool_(tool),
        work_(work),
        options_(options),
        stages_(options.on_progress, options.clock, options.pool->n_threads()),
        runner_(&tool_, &work_, &options_, &stages_) {}

  absl::StatusOr<std::vector<Photo>> Prepare(const PhotoSources& sources) {
    stages_.Expect(StagesOfReading(sources) + kCoarseStages + StagesOf(kEfforts[0]));
    NERF_ASSIGN_OR_RETURN(photos_, ReadPictures(sources, work_, options_, &stages_));
    if (!ArePanoramas(photos_, options_.camera)) return photos_;
    panoramas_ = std::move(photos_);
    NERF_RETURN_IF_ERROR(CutIntoFaces());
    return panoramas_;
  }

  // Leaves the best model in sparse/0, refined, where one was found; `others` are the groups that
  // it could not be joined to.
  absl::Status Run(std::vector<std::vector<std::string>>* others, ColmapDatabase* matches) {
    NERF_RETURN_IF_ERROR(FindOverlaps());
    *matches = few_;
    // The mapper would look for a pair with depth for many minutes.
    is_one_spot_ = IsOneSpot(work_ / kFewDatabase);
    if (is_one_spot_) return absl::OkStatus();
    const absl::Duration time_limit = options_.time_limit;
    for (size_t i = 0; i < std::size(kEfforts); ++i) {
      std::vector<std::vector<std::string>> groups;
      if (i > 0 && !IsWorthIt(kEfforts[i], *matches)) break;
      const absl::Status tried = Try(i, &groups, matches);
      if (known_apart_.has_value() && absl::IsDeadlineExceeded(tried)) break;
      NERF_RETURN_IF_ERROR(tried);
      has_tried_ = true;
      const size_t n_posed = groups.empty() ? 0 : CountPictures(groups[0]);
      if (n_posed > best_posed_) {
        best_posed_ = n_posed;
        best_folder_ = best_of_try_;
        *others = std::vector<std::vector<std::string>>(groups.begin() + 1, groups.end());
        best_share_ = ShareOf(groups[0]);
      }
      if (best_share_ >= options_.min_posed_share) break;
    }
    options_.time_limit = time_limit;
    if (HasPanoramas()) {
      *matches = JoinFaces(*matches);
      for (std::vector<std::string>& other : *others) other = JoinFaces(other);
    }
    if (best_posed_ < kMinPosed) return absl::OkStatus();
    return HasPanoramas() ? RefinePanoramas() : Refine();
  }

  // Whether Run has found that no photograph shows depth.
  bool is_one_spot() const { return is_one_spot_; }

 private:
  // The pictures that COLMAP sees, and their masks where there are any.
  std::string images() const { return work_ / (HasPanoramas() ? "faces" : "images"); }
  std::string masks() const { return work_ / (HasPanoramas() ? "face_masks" : "masks"); }
  std::string_view unit() const { return HasPanoramas() ? "views" : "photographs"; }
  bool HasPanoramas() const { return !panoramas_.empty(); }

  // At most so many are looked for in a picture that COLMAP sees.
  int FeaturesOf(int features) const {
    return HasPanoramas() ? std::min(features, kFaceFeatures) : features;
  }

  absl::Status CutIntoFaces() {
    for (const std::string& file : LeaveOutOthers(&panoramas_)) {
      std::error_code ignored;
      fs::remove(work_ / ("images/" + file), ignored);
      fs::remove(work_ / ("masks/" + file + ".png"), ignored);
    }
    if (options_.mask_below > 0) {
      NERF_RETURN_IF_ERROR(MakeFolder(work_ / "masks"));
      for (const Photo& photo : panoramas_) {
        if (!photo.file.empty())
          NERF_RETURN_IF_ERROR(MaskPole(photo, options_.mask_below, work_ / "masks"));
      }
    }
    CutOptions cut{work_ / "images", images()};
    std::error_code ignored;
    if (fs::exists(work_ / "masks", ignored)) {
      cut.masks = work_ / "masks";
      cut.face_masks = masks();
    }
    stages_.Expect(1);
    stages_.Expect(1 + kCoarseStages + StagesOf(kEfforts[0]));
    stages_.Begin("cutting panoramas", "photographs");
    const PrepareOptions prepare{options_.pool, options_.stop,
                                 [this](size_t done, size_t of) {
                                   stages_.Advance(static_cast<int>(done), static_cast<int>(of));
                                 },
                                 "", options_.max_memory_bytes};
    NERF_ASSIGN_OR_RETURN(photos_, CutPanoramas(panoramas_, cut, prepare));
    return absl::OkStatus();
  }

  absl::Status Extract(const std::string& database, int features, int side, bool doubled) {
    ExtractTask task{database, images(), "", FeaturesOf(features), side, doubled, {}};
    for (const Photo& panorama : panoramas_) {
      if (panorama.file.empty()) continue;
      for (int face = 0; face < kPanoramaFaces; ++face)
        task.lenses[panorama.lens * kPanoramaFaces + face] = {"PINHOLE",
                                                              FaceParams(panorama.width)};
    }
    std::error_code ignored;
    if (fs::exists(masks(), ignored)) task.masks = masks();
    return runner_.Extract(photos_, task);
  }

  absl::Status FindOverlaps() {
    const std::string database = work_ / kFewDatabase;
    const PlannedStage match = MatchCost(AllPairs(), kFewFeatures);
    std::vector<PlannedStage> later = LaterOf(kEfforts[0], ExpectedPairs(kEfforts[0]), true);
    later.insert(later.begin(), match);
    stages_.Begin("extracting coarse features", unit(), static_cast<int>(CountUsed()),
                  ExtractCost(photos_, kFewFeaturesSide, false), later);
    NERF_RETURN_IF_ERROR(Extract(database, kFewFeatures, kFewFeaturesSide, false));
    later.erase(later.begin());
    stages_.Begin("matching coarse features of all pairs", unit(), static_cast<int>(CountUsed()),
                  match, later);
    stages_.CountMatches(AllPairs() * kFewFeatures);
    NERF_RETURN_IF_ERROR(MatchEach(database));
    NERF_ASSIGN_OR_RETURN(few_, ReadColmapDatabase(database));
    return absl::OkStatus();
  }

  absl::Status Match(const Effort& effort, const std::string& database) {
    const bool all = MatchesAll(effort);
    std::vector<ColmapPair> pairs;
    if (!all) pairs = StrongestPairs(few_.pairs, effort.pairs_per_photo);
    const double n_pairs = all ? AllPairs() : static_cast<double>(pairs.size());
    stages_.Begin(absl::StrCat("matching features of ", all ? "all" : "overlapping", " pairs",
                               effort.new_features ? "" : SoFar()),
                  unit(), static_cast<int>(CountUsed()),
                  MatchCost(n_pairs, FeaturesOf(effort.features)),
                  {PlaceCost(CountUsed()), RefineCost(CountUsed())});
    stages_.CountMatches(n_pairs * FeaturesOf(effort.features));
    // Without a pair there is nothing to do; the next effort looks at all of them.
    return all ? MatchEach(database) : runner_.MatchPairs(database, pairs, kPairsPerList);
  }

  // All pairs.
  absl::Status MatchEach(const std::string& database) {
    if (!HasPanoramas()) return runner_.MatchAll(database);
    return runner_.MatchPairs(database, PairsOfFaces(photos_), kCoarsePairsPerList);
  }

  double AllPairs() const {
    const auto n = static_cast<double>(CountUsed());
    return n * (n - 1) / 2;
  }

  // Whether it matches pairs that do not overlap as far as is known, too.
  bool MatchesAll(const Effort& effort) const {
    return effort.all_pairs && AllPairs() <= static_cast<double>(kMaxAllPairs);
  }

  // What StrongestPairs leaves, before it is known.
  double ExpectedPairs(const Effort& effort) const {
    constexpr double kShareKept = 0.75;
    const double kept = kShareKept * static_cast<double>(CountUsed() * effort.pairs_per_photo);
    return MatchesAll(effort) ? AllPairs() : std::min(AllPairs(), kept);
  }

  // Of an effort, to the end of the search.
  std::vector<PlannedStage> LaterOf(const Effort& effort, double n_pairs, bool extracts) const {
    std::vector<PlannedStage> stages = {MatchCost(n_pairs, FeaturesOf(effort.features)),
                                        PlaceCost(CountUsed()), RefineCost(CountUsed())};
    if (extracts) stages.insert(stages.begin(), ExtractCost(photos_, effort.side, true));
    return stages;
  }

  // Whether another effort follows. Limits the time of its commands where they seldom help.
  bool IsWorthIt(const Effort& effort, const ColmapDatabase& matches) {
    if (HasPanoramas()) return true;  // faces that show the sky match nothing
    const SteadyTime now = options_.clock->Now();
    if (!has_tried_harder_) {
      std::vector<ColmapPair> pairs = few_.pairs;
      pairs.insert(pairs.end(), matches.pairs.begin(), matches.pairs.end());
      const std::set<std::string> usable = UsableFiles();
      const auto joined = static_cast<double>(LargestGroup(pairs, usable));
      if (joined < options_.min_posed_share * static_cast<double>(usable.size()))
        known_apart_ = now;
    }
    has_tried_harder_ = true;
    if (!known_apart_.has_value()) return true;
    const absl::Duration left = options_.patience - (now - *known_apart_);
    const double n_pairs = MatchesAll(effort) ? AllPairs() : static_cast<double>(few_.pairs.size());
    if (stages_.Expected(LaterOf(effort, n_pairs, effort.new_features)) >=
        absl::ToDoubleSeconds(left)) {
      return false;
    }
    options_.time_limit = std::min(options_.time_limit, left);
    return true;
  }

  // Groups are the names of each model's photographs, the largest first.
  absl::Status Try(size_t number, std::vector<std::vector<std::string>>* groups,
                   ColmapDatabase* matches) {
    const Effort& effort = kEfforts[number];
    n_shown_ = 0;
    stages_.Expect(StagesOf(effort));
    if (effort.new_features) {
      const double n_pairs =
          MatchesAll(effort)
              ? AllPairs()
              : static_cast<double>(StrongestPairs(few_.pairs, effort.pairs_per_photo).size());
      stages_.Begin(absl::StrCat("extracting ", number > 0 ? "more " : "", "features", SoFar()),
                    unit(), static_cast<int>(CountUsed()), ExtractCost(photos_, effort.side, true),
                    LaterOf(effort, n_pairs, false));
      database_ = work_ / absl::StrCat("features_", number, ".db");
      NERF_RETURN_IF_ERROR(Extract(database_, effort.features, effort.side, true));
    }
    NERF_RETURN_IF_ERROR(Match(effort, database_));
    NERF_ASSIGN_OR_RETURN(ColmapDatabase found, ReadColmapDatabase(database_));
    *matches = std::move(found);
    if (matches->pairs.empty()) return absl::OkStatus();
    const std::string models = work_ / absl::StrCat("models_", number);
    NERF_RETURN_IF_ERROR(MakeFolder(models));
    MapOptions map{database_,      images(),       models, runner_.threads(),
                   effort.relaxed, HasPanoramas(), ""};
    if (CountUsed() <= kMaxSnapshotPhotos) {
      map.snapshots = work_ / absl::StrCat("snapshots_", number);
      map.snapshot_every = std::max(2, static_cast<int>(CountUsed()) / kSnapshots);
      NERF_RETURN_IF_ERROR(MakeFolder(map.snapshots));
    }
    stages_.Begin("placing cameras", unit(), static_cast<int>(CountUsed()), PlaceCost(CountUsed()),
                  {RefineCost(CountUsed())});
    NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end,
                          runner_.Run(MapCommand(tool_, map), [&](std::string_view line) {
                            const auto progress = ParseProgress(ColmapStage::kMap, line);
                            if (!progress.has_value()) return;
                            if (!map.snapshots.empty()) ShowNewest(map.snapshots);
                            stages_.Advance(progress->done, static_cast<int>(CountUsed()));
                          }));
    if (!FoundNoModel(end)) {
      NERF_RETURN_IF_ERROR(FailureOf("colmap", StageName(ColmapStage::kMap), end));
    }
    const std::vector<ModelSize> sizes = ModelsIn(models);
    if (!sizes.empty()) best_of_try_ = sizes[0].folder;
    for (const ModelSize& size : sizes) {
      NERF_ASSIGN_OR_RETURN(const PosedModel model, ReadPosedModel(size.folder));
      std::vector<std::string> names;
      for (const auto& [name, photo] : model.photos) names.push_back(name);
      if (!map.snapshots.empty()) ShowIfLargest(model);
      groups->push_back(std::move(names));
    }
    stages_.End(groups->empty() ? 0 : static_cast<int>(groups->front().size()));
    return absl::OkStatus();
  }

  // COLMAP begins further models, whose snapshots are newer and smaller.
  void ShowIfLargest(const PosedModel& model) {
    if (model.photos.size() < n_shown_) return;
    n_shown_ = model.photos.size();
    stages_.Show(SketchFromAbove(model));
  }

  // Shows the newest model of a folder that the mapper has written whole, and removes it and older
  // ones.
  void ShowNewest(const std::string& folder) {
    std::error_code error;
    std::vector<std::pair<fs::file_time_type, fs::path>> found;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      found.emplace_back(it->last_write_time(error), it->path());
    }
    std::sort(found.rbegin(), found.rend());
    for (size_t i = 0; i < found.size(); ++i) {
      const absl::StatusOr<PosedModel> model = ReadPosedModel(found[i].second.string());
      if (!model.ok()) continue;  // still being written
      ShowIfLargest(*model);
      for (; i < found.size(); ++i) fs::remove_all(found[i].second, error);
    }
  }

  // Why there is another effort; empty in the first one.
  std::string SoFar() const {
    if (!has_tried_) return "";
    const size_t n = HasPanoramas() ? CountUsed() / kPanoramaFaces : CountUsed();
    return absl::StrCat(" (", best_posed_, " of ", n, " posed so far)");
  }

  // Of panoramas one whose faces are among the names.
  size_t CountPictures(const std::vector<std::string>& names) const {
    return HasPanoramas() ? JoinFaces(names).size() : names.size();
  }

  size_t CountUsed() const {
    return static_cast<size_t>(std::count_if(photos_.begin(), photos_.end(),
                                             [](const Photo& p) { return !p.file.empty(); }));
  }

  // Those that are not blurred.
  std::set<std::string> UsableFiles() const {
    std::set<std::string> files;
    for (const Photo& photo : HasPanoramas() ? panoramas_ : photos_) {
      if (!photo.file.empty() && !photo.is_blurred) files.insert(photo.file);
    }
    return files;
  }

  double ShareOf(const std::vector<std::string>& posed) const {
    const std::vector<std::string> files = HasPanoramas() ? JoinFaces(posed) : posed;
    const std::set<std::string> usable = UsableFiles(), names(files.begin(), files.end());
    const auto n_posed = std::count_if(names.begin(), names.end(),
                                       [&](const auto& name) { return usable.contains(name); });
    return usable.empty() ? 0 : static_cast<double>(n_posed) / static_cast<double>(usable.size());
  }

  // The principal point is part of the last adjustment alone: earlier it would take up errors.
  absl::Status Refine() {
    stages_.Expect(1);
    stages_.Begin("refining cameras", "iterations", kMaxRefinements, RefineCost(CountUsed()));
    const std::string refined = work_ / "sparse/0";
    NERF_RETURN_IF_ERROR(MakeFolder(refined));
    NERF_RETURN_IF_ERROR(runner_.RunOrFail(
        ColmapStage::kRefine, RefineCommand(tool_, best_folder_, refined), 0, kMaxRefinements));
    NERF_ASSIGN_OR_RETURN(const PosedModel before, ReadPosedModel(best_folder_));
    const absl::StatusOr<PosedModel> after = ReadPosedModel(refined);
    if (after.ok() && after->photos.size() == before.photos.size() &&
        after->reprojection_error <= before.reprojection_error * 1.05 && HasCenteredLens(refined)) {
      return absl::OkStatus();
    }
    // A principal point that ran away; the model from before is sound.
    for (const std::string file : {"/cameras.bin", "/images.bin", "/points3D.bin"})
      NERF_RETURN_IF_ERROR(CopyFile(best_folder_ + file, refined + file, kMaxFileBytes));
    return absl::OkStatus();
  }

  // The faces of each panorama move together; points are found anew from there.
  absl::Status RefinePanoramas() {
    stages_.Expect(1);
    stages_.Begin("refining cameras", "iterations", kMaxRefinements, RefineCost(CountUsed()));
    NERF_ASSIGN_OR_RETURN(const PosedModel faces, ReadPosedModel(best_folder_));
    NERF_ASSIGN_OR_RETURN(const auto ids, ReadColmapIds(database_));
    const std::string placed = work_ / "rig", found = work_ / "rig_points",
                      refined = work_ / "rig_refined", config = work_ / "rig.json";
    NERF_RETURN_IF_ERROR(WriteRig(PanoramaPoses(faces), panoramas_, ids, placed, config));
    NERF_RETURN_IF_ERROR(MakeFolder(found));
    NERF_RETURN_IF_ERROR(MakeFolder(refined));
    NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end,
                          runner_.Run(TriangulateCommand(tool_, database_, images(), placed, found),
                                      [](std::string_view) {}));
    NERF_RETURN_IF_ERROR(FailureOf("colmap", StageName(ColmapStage::kRefine), end));
    NERF_RETURN_IF_ERROR(runner_.RunOrFail(
        ColmapStage::kRefine, RefineRigCommand(tool_, found, refined, config), 0, kMaxRefinements));
    return WritePanoramas(refined, panoramas_, work_ / "sparse/0");
  }

  // No principal point lies further than a quarter of a side from the middle.
  static bool HasCenteredLens(const std::string& folder) {
    const absl::StatusOr<SceneFolder> files = SceneFolder::Open(folder);
    if (!files.ok()) return false;
    Problems problems;
    const ColmapModel model = ReadColmapModel(*files, "cameras.bin", "images.bin", true, &problems);
    if (!problems.empty()) return false;
    return std::all_of(model.cameras.begin(), model.cameras.end(), [](const auto& entry) {
      const ColmapCamera& camera = entry.second;
      const size_t cx = camera.params.size() >= 8 ? 2 : 1;  // OPENCV has two focal lengths
      if (camera.params.size() < cx + 2) return true;
      const double width = static_cast<double>(camera.width);
      const double height = static_cast<double>(camera.height);
      return std::abs(camera.params[cx] - width / 2) < width / 4 &&
             std::abs(camera.params[cx + 1] - height / 2) < height / 4;
    });
  }

  const ColmapTool& tool_;
  const WorkFolder& work_;
  PoseOptions options_;
  std::vector<Photo> photos_;     // that COLMAP sees: faces, if there are panoramas
  std::vector<Photo> panoramas_;  // empty for other photographs
  ColmapDatabase few_;
  std::string database_, best_of_try_, best_folder_;
  size_t n_shown_ = 0;  // photographs of the largest model of a try that was shown
  size_t best_posed_ = 0;
  bool has_tried_ = false, has_tried_harder_ = false, is_one_spot_ = false;
  std::optional<SteadyTime> known_apart_;  // since when harder efforts seldom help
  double best_share_ = 0;
  PoseStages stages_;
  ColmapRunner runner_;
};

}  // namespace

std::vector<ColmapPair> StrongestPairs(const std::vector<ColmapPair>& pairs, size_t per_photo) {
  if (per_photo == 0) return pairs;
  std::vector<const ColmapPair*> by_strength;
  for (const ColmapPair& pair : pairs) by_strength.push_back(&pair);
  std::sort(by_strength.begin(), by_strength.end(), [](const ColmapPair* a, const ColmapPair* b) {
    return std::tie(b->n_inliers, a->first, a->second) <
           std::tie(a->n_inliers, b->first, b->second);
  });
  std::map<std::string, size_t> counts;
  std::vector<ColmapPair> strongest;
  for (const ColmapPair* pair : by_strength) {
    if (counts[pair->first] >= per_photo && counts[pair->second] >= per_photo) continue;
    ++counts[pair->first];
    ++counts[pair->second];
    strongest.push_back(*pair);
  }
  return strongest;
}

absl::Status CheckPoseSearch(const std::string& source, const std::string& out,
                             const PoseOptions& options) {
  NERF_RETURN_IF_ERROR(ListPhotoSources(source).status());
  NERF_RETURN_IF_ERROR(CheckOut(out));
  return FindColmap(options.colmap).status();
}

absl::StatusOr<PoseReport> SearchPoses(const std::string& source, const std::string& out,
                                       const PoseOptions& options) {
  const SteadyTime begin = options.clock->Now();
  NERF_ASSIGN_OR_RETURN(const PhotoSources sources, ListPhotoSources(source));
  NERF_RETURN_IF_ERROR(CheckOut(out));
  NERF_ASSIGN_OR_RETURN(const ColmapTool tool, FindColmap(options.colmap));
  const fs::path parent = fs::absolute(out).lexically_normal().parent_path();
  NERF_ASSIGN_OR_RETURN(const MadeFolder folder, MadeFolder::Make(parent.string()));
  NERF_ASSIGN_OR_RETURN(WorkFolder work, WorkFolder::Create(out));
  PoseSearch search(tool, work, options);
  NERF_ASSIGN_OR_RETURN(const std::vector<Photo> photos, search.Prepare(sources));
  const auto n_used = static_cast<size_t>(std::count_if(
      photos.begin(), photos.end(), [](const Photo& photo) { return !photo.file.empty(); }));
  std::vector<std::vector<std::string>> others;
  ColmapDatabase matches;
  if (n_used >= kMinPosed) NERF_RETURN_IF_ERROR(search.Run(&others, &matches));
  PosedModel model;
  std::error_code ignored;
  if (fs::exists(work / "sparse/0", ignored)) {
    NERF_ASSIGN_OR_RETURN(model, ReadPosedModel(work / "sparse/0"));
  }
  PoseReport report = MakePoseReport(photos, model, others, matches);
  if (search.is_one_spot()) SayOneSpot(&report);
  if (n_used < kMinPosed) SayTooFew(&report);
  for (const std::string& unreadable : sources.unreadable) report.warnings.push_back(unreadable);
  report.colmap_version = tool.version;
  report.seconds = absl::ToDoubleSeconds(options.clock->Now() - begin);
  NERF_RETURN_IF_ERROR(WriteReportFiles(report, model, work, out));
  NERF_RETURN_IF_ERROR(
      work.BecomeAs(out, {"images", "masks", "sparse", "pose.json", "pose.txt", "pose.png"}));
  return report;
}

}  // namespace nerf
