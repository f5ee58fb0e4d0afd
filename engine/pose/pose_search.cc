#include "engine/pose/pose_search.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/child_failure.h"
#include "common/child_process.h"
#include "common/error_reason.h"
#include "common/file_io.h"
#include "common/made_folder.h"
#include "common/status_macros.h"
#include "engine/pose/colmap_tool.h"
#include "engine/pose/film.h"
#include "engine/pose/match_groups.h"
#include "engine/pose/one_spot.h"
#include "engine/pose/pose_costs.h"
#include "engine/pose/pose_picture.h"
#include "engine/scene/colmap_model.h"
#include "engine/scene/image_io.h"
#include "engine/scene/scene_files.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

// Features of a photograph, and its side in pixels while they are looked for. A few features of a
// small picture are the coarse ones, which suffice to find out which photographs overlap.
constexpr int kFewFeatures = 512, kFewFeaturesSide = 1000;
constexpr int kFeatures = 3000, kFeaturesSide = 2000;
constexpr int kManyFeatures = 10'000, kManyFeaturesSide = 3200;
constexpr size_t kPairsPerPhoto = 12;
// Beyond this, all pairs with all features would take hours.
constexpr size_t kMaxAllPairs = 45'000;  // 300 photographs
constexpr size_t kMinPhotosOfLens = 5;   // for four parameters of distortion
constexpr uint64_t kMaxFileBytes = uint64_t{64} << 30;
constexpr uint64_t kBytesPerPixel = 60;  // that extraction holds: a picture in all its scales

// A folder that goes with everything in it unless it was kept.
class WorkFolder {
 public:
  static absl::StatusOr<WorkFolder> Create(const std::string& out) {
    std::string name = out;
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    name += ".partial-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      return ErrnoToStatus(errno, absl::StrCat("cannot make ", name));
    }
    return WorkFolder(name);
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  WorkFolder& operator=(WorkFolder&&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Becomes `out`, which does not exist or is an empty folder.
  absl::Status BecomeAs(const std::string& out) {
    std::error_code error;
    fs::permissions(path_, fs::perms(0755), error);
    fs::rename(path_, out, error);
    if (error) return ErrnoToStatus(error.value(), absl::StrCat("cannot make ", out));
    path_.clear();
    return absl::OkStatus();
  }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? ErrnoToStatus(error.value(), absl::StrCat("cannot make ", path))
               : absl::OkStatus();
}

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
constexpr int kPrepareStages = 3;  // photographs, coarse features, their matches
constexpr char kFewDatabase[] = "few.db";
constexpr char kBlocks[] = "blocks of pairs";
constexpr size_t kPairsPerList = 64;  // between two lines of progress

class PoseSearch {
 public:
  PoseSearch(const ColmapTool& tool, const WorkFolder& work, const PoseOptions& options)
      : tool_(tool),
        work_(work),
        options_(options),
        stages_(
            options.on_progress,
            [clock = options.clock, begin = options.clock->Now()] {
              return absl::ToDoubleSeconds(clock->Now() - begin);
            },
            options.pool->n_threads()) {}

  absl::StatusOr<std::vector<Photo>> Prepare(const PhotoSources& sources) {
    std::vector<PhotoSources::Picture> pictures = sources.pictures;
    const size_t n_films = sources.films.size();
    stages_.Expect((n_films > 0 ? 1 : 0) + kPrepareStages + StagesOf(kEfforts[0]));
    if (n_films > 0) stages_.Begin("reading films", "frames");
    for (size_t i = 0; i < n_films; ++i) {
      const std::string frames = work_ / absl::StrCat("film_", i);
      NERF_RETURN_IF_ERROR(MakeFolder(frames));
      FilmOptions film;
      film.ffmpeg = options_.ffmpeg;
      film.ffprobe = options_.ffprobe;
      film.n_frames = options_.film_frames;
      film.pool = options_.pool;
      film.stop = options_.stop;
      film.on_progress = [&, i](size_t done, size_t of) { Advance(i * of + done, n_films * of); };
      NERF_ASSIGN_OR_RETURN(const auto taken, FramesOfFilm(sources.films[i], frames, film));
      pictures.insert(pictures.end(), taken.begin(), taken.end());
    }
    NERF_RETURN_IF_ERROR(MakeFolder(images()));
    stages_.Begin("reading photographs", "photographs");
    PrepareOptions prepare{options_.pool, options_.stop,
                           [this](size_t done, size_t of) { Advance(done, of); }};
    NERF_ASSIGN_OR_RETURN(photos_, PreparePhotos(pictures, images(), prepare));
    for (size_t i = 0; i < n_films; ++i) {
      std::error_code ignored;
      fs::remove_all(work_ / absl::StrCat("film_", i), ignored);
    }
    return photos_;
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
      const size_t n_posed = groups.empty() ? 0 : groups[0].size();
      if (n_posed > best_posed_) {
        best_posed_ = n_posed;
        best_folder_ = best_of_try_;
        *others = std::vector<std::vector<std::string>>(groups.begin() + 1, groups.end());
        best_share_ = ShareOf(groups[0]);
      }
      if (best_share_ >= options_.min_posed_share) break;
    }
    options_.time_limit = time_limit;
    if (best_posed_ < kMinPosed) return absl::OkStatus();
    return Refine();
  }

  // Whether Run has found that no photograph shows depth.
  bool is_one_spot() const { return is_one_spot_; }

 private:
  std::string images() const { return work_ / "images"; }
  int threads() const { return options_.pool->n_threads(); }

  void Advance(size_t done, size_t of) {
    stages_.Advance(static_cast<int>(done), static_cast<int>(of));
  }

  // Runs one process of COLMAP.
  absl::StatusOr<ChildProcessEnd> Run(const std::vector<std::string>& command,
                                      const std::function<void(std::string_view line)>& on_line) {
    ChildProcessSpec spec;
    spec.arguments = command;
    spec.environment = {{"QT_QPA_PLATFORM", "offscreen"},
                        {"OMP_NUM_THREADS", std::to_string(threads())}};
    spec.time_limit = options_.time_limit;
    spec.max_memory_bytes = options_.max_memory_bytes;
    spec.max_file_bytes = kMaxFileBytes;
    return RunChildProcess(
        spec, on_line, [this] { stages_.Repeat(); }, options_.stop);
  }

  // The same, and shows its progress. `before` is added to what it has done; of 0: as it says.
  absl::StatusOr<ChildProcessEnd> Run(ColmapStage stage, const std::vector<std::string>& command,
                                      int before, int of) {
    return Run(command, [&](std::string_view line) {
      const std::optional<ColmapProgress> progress = ParseProgress(stage, line);
      if (!progress.has_value()) return;
      stages_.Advance(before + progress->done, of > 0 ? of : progress->of);
    });
  }

  absl::Status RunOrFail(ColmapStage stage, const std::vector<std::string>& command, int before = 0,
                         int of = 0) {
    NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end, Run(stage, command, before, of));
    return FailureOf("colmap", StageName(stage), end);
  }

  // A run for each lens: COLMAP takes all photographs of one run for one camera's.
  absl::Status Extract(const std::string& database, int features, int side, bool doubled) {
    std::map<int, std::vector<const Photo*>> by_lens;
    size_t n_photos = 0;
    for (const Photo& photo : photos_) {
      if (photo.file.empty()) continue;
      by_lens[photo.lens].push_back(&photo);
      ++n_photos;
    }
    ExtractOptions extract;
    extract.database = database;
    extract.images = images();
    extract.list = work_ / "list.txt";
    extract.max_image_side = side;
    extract.max_features = features;
    extract.doubled = doubled;
    size_t n_done = 0;
    for (const auto& [lens, photos] : by_lens) {
      std::string names;
      double largest = 0;
      for (const Photo* photo : photos) {
        absl::StrAppend(&names, photo->file, "\n");
        const double reduced =
            std::min(1.0, static_cast<double>(side) / std::max(photo->width, photo->height));
        largest = std::max(largest, reduced * reduced * photo->width * photo->height);
      }
      const double bytes = largest * (doubled ? 4 : 1) * static_cast<double>(kBytesPerPixel);
      extract.threads = threads();
      if (options_.max_memory_bytes > 0) {
        const double fits = static_cast<double>(options_.max_memory_bytes) / std::max(bytes, 1.0);
        extract.threads = std::clamp(static_cast<int>(std::min(fits, 1024.0)), 1, threads());
      }
      extract.simple_lens = photos.size() < kMinPhotosOfLens;
      NERF_RETURN_IF_ERROR(WriteFileAtomically(extract.list, names));
      NERF_RETURN_IF_ERROR(RunOrFail(ColmapStage::kExtract, ExtractCommand(tool_, extract),
                                     static_cast<int>(n_done), static_cast<int>(n_photos)));
      n_done += photos.size();
    }
    return absl::OkStatus();
  }

  absl::Status FindOverlaps() {
    const std::string database = work_ / kFewDatabase;
    const PlannedStage match = MatchCost(AllPairs(), kFewFeatures);
    std::vector<PlannedStage> later = LaterOf(kEfforts[0], ExpectedPairs(kEfforts[0]), true);
    later.insert(later.begin(), match);
    stages_.Begin("extracting coarse features", "photographs", static_cast<int>(CountUsed()),
                  ExtractCost(photos_, kFewFeaturesSide, false), later);
    NERF_RETURN_IF_ERROR(Extract(database, kFewFeatures, kFewFeaturesSide, false));
    later.erase(later.begin());
    stages_.Begin("matching coarse features of all pairs", kBlocks, 0, match, later);
    stages_.CountMatches(AllPairs() * kFewFeatures);
    NERF_RETURN_IF_ERROR(
        RunOrFail(ColmapStage::kMatch, MatchCommand(tool_, database, "", threads())));
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
                  all ? kBlocks : "pairs", static_cast<int>(pairs.size()),
                  MatchCost(n_pairs, effort.features),
                  {PlaceCost(CountUsed()), RefineCost(CountUsed())});
    stages_.CountMatches(n_pairs * effort.features);
    if (all) {
      return RunOrFail(ColmapStage::kMatch, MatchCommand(tool_, database, "", threads()));
    }
    // Without a pair the importer has nothing to do; the next effort looks at all of them. It says
    // nothing before it has matched all pairs of a list, so it gets them in parts.
    const std::string list = work_ / "pairs.txt";
    for (size_t begin = 0; begin < pairs.size(); begin += kPairsPerList) {
      const size_t end = std::min(pairs.size(), begin + kPairsPerList);
      std::string lines;
      for (size_t i = begin; i < end; ++i) {
        absl::StrAppend(&lines, pairs[i].first, " ", pairs[i].second, "\n");
      }
      NERF_RETURN_IF_ERROR(WriteFileAtomically(list, lines));
      const std::vector<std::string> command = MatchCommand(tool_, database, list, threads());
      NERF_ASSIGN_OR_RETURN(const ChildProcessEnd ended, Run(command, [](std::string_view) {}));
      NERF_RETURN_IF_ERROR(FailureOf("colmap", StageName(ColmapStage::kMatch), ended));
      Advance(end, pairs.size());
    }
    return absl::OkStatus();
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
    std::vector<PlannedStage> stages = {MatchCost(n_pairs, effort.features), PlaceCost(CountUsed()),
                                        RefineCost(CountUsed())};
    if (extracts) stages.insert(stages.begin(), ExtractCost(photos_, effort.side, true));
    return stages;
  }

  // Whether another effort follows. Limits the time of its commands where they seldom help.
  bool IsWorthIt(const Effort& effort, const ColmapDatabase& matches) {
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
    stages_.Expect(StagesOf(effort));
    if (effort.new_features) {
      const double n_pairs =
          MatchesAll(effort)
              ? AllPairs()
              : static_cast<double>(StrongestPairs(few_.pairs, effort.pairs_per_photo).size());
      stages_.Begin(absl::StrCat("extracting ", number > 0 ? "more " : "", "features", SoFar()),
                    "photographs", static_cast<int>(CountUsed()),
                    ExtractCost(photos_, effort.side, true), LaterOf(effort, n_pairs, false));
      database_ = work_ / absl::StrCat("features_", number, ".db");
      NERF_RETURN_IF_ERROR(Extract(database_, effort.features, effort.side, true));
    }
    NERF_RETURN_IF_ERROR(Match(effort, database_));
    NERF_ASSIGN_OR_RETURN(ColmapDatabase found, ReadColmapDatabase(database_));
    *matches = std::move(found);
    if (matches->pairs.empty()) return absl::OkStatus();
    const std::string models = work_ / absl::StrCat("models_", number);
    NERF_RETURN_IF_ERROR(MakeFolder(models));
    MapOptions map{database_, images(), models, threads(), effort.relaxed};
    stages_.Begin("placing cameras", "photographs", static_cast<int>(CountUsed()),
                  PlaceCost(CountUsed()), {RefineCost(CountUsed())});
    NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end, Run(ColmapStage::kMap, MapCommand(tool_, map),
                                                         0, static_cast<int>(CountUsed())));
    if (!FoundNoModel(end)) {
      NERF_RETURN_IF_ERROR(FailureOf("colmap", StageName(ColmapStage::kMap), end));
    }
    const std::vector<ModelSize> sizes = ModelsIn(models);
    if (!sizes.empty()) best_of_try_ = sizes[0].folder;
    for (const ModelSize& size : sizes) {
      NERF_ASSIGN_OR_RETURN(const PosedModel model, ReadPosedModel(size.folder));
      std::vector<std::string> names;
      for (const auto& [name, photo] : model.photos) names.push_back(name);
      groups->push_back(std::move(names));
    }
    return absl::OkStatus();
  }

  // Why there is another effort; empty in the first one.
  std::string SoFar() const {
    if (!has_tried_) return "";
    return absl::StrCat(" (", best_posed_, " of ", CountUsed(), " posed so far)");
  }

  size_t CountUsed() const {
    return static_cast<size_t>(std::count_if(photos_.begin(), photos_.end(),
                                             [](const Photo& p) { return !p.file.empty(); }));
  }

  // Those that are not blurred.
  std::set<std::string> UsableFiles() const {
    std::set<std::string> files;
    for (const Photo& photo : photos_) {
      if (!photo.file.empty() && !photo.is_blurred) files.insert(photo.file);
    }
    return files;
  }

  double ShareOf(const std::vector<std::string>& posed) const {
    const std::set<std::string> usable = UsableFiles();
    const auto n_posed = std::count_if(posed.begin(), posed.end(),
                                       [&](const auto& name) { return usable.contains(name); });
    return usable.empty() ? 0 : static_cast<double>(n_posed) / static_cast<double>(usable.size());
  }

  // The principal point is part of the last adjustment alone: earlier it would take up errors.
  absl::Status Refine() {
    stages_.Expect(1);
    stages_.Begin("refining cameras", "iterations", kMaxRefinements, RefineCost(CountUsed()));
    const std::string refined = work_ / "sparse/0";
    NERF_RETURN_IF_ERROR(MakeFolder(refined));
    NERF_RETURN_IF_ERROR(RunOrFail(
        ColmapStage::kRefine, RefineCommand(tool_, best_folder_, refined), 0, kMaxRefinements));
    NERF_ASSIGN_OR_RETURN(const PosedModel before, ReadPosedModel(best_folder_));
    const absl::StatusOr<PosedModel> after = ReadPosedModel(refined);
    if (after.ok() && after->photos.size() == before.photos.size() &&
        after->reprojection_error <= before.reprojection_error * 1.05 && HasCenteredLens(refined)) {
      return absl::OkStatus();
    }
    // A principal point that ran away; the model from before is sound.
    // Not by copy_file, which changes modes: a worker's sandbox refuses that.
    for (const char* file : {"cameras.bin", "images.bin", "points3D.bin"}) {
      NERF_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadFile(best_folder_ + "/" + file, kMaxFileBytes));
      NERF_RETURN_IF_ERROR(WriteFileAtomically(refined + "/" + file, bytes));
    }
    return absl::OkStatus();
  }

  // No principal point lies further than a quarter of a side from the middle.
  static bool HasCenteredLens(const std::string& folder) {
    const absl::StatusOr<SceneFolder> files = SceneFolder::Open(folder);
    if (!files.ok()) return false;
    std::vector<SceneProblem> problems;
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
  std::vector<Photo> photos_;
  ColmapDatabase few_;
  std::string database_, best_of_try_, best_folder_;
  size_t best_posed_ = 0;
  bool has_tried_ = false, has_tried_harder_ = false, is_one_spot_ = false;
  std::optional<SteadyTime> known_apart_;  // since when harder efforts seldom help
  double best_share_ = 0;
  PoseStages stages_;
};

absl::Status CheckOut(const std::string& out) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(out, error))) return absl::OkStatus();
  if (fs::is_directory(out, error) && fs::is_empty(out, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(out, ": exists and is no empty folder; name another one, or remove it"));
}

// What stays of a work folder.
absl::Status RemoveAllBut(const WorkFolder& work, const std::set<std::string>& kept) {
  std::error_code error;
  std::vector<fs::path> gone;
  for (const auto& entry : fs::directory_iterator(work / "", error)) {
    if (!kept.contains(entry.path().filename().string())) gone.push_back(entry.path());
  }
  for (const fs::path& path : gone) fs::remove_all(path, error);
  return absl::OkStatus();
}

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
  if (fs::exists(work / "sparse/0/images.bin", ignored)) {
    NERF_ASSIGN_OR_RETURN(model, ReadPosedModel(work / "sparse/0"));
  }
  PoseReport report = MakePoseReport(photos, model, others, matches);
  if (search.is_one_spot()) SayOneSpot(&report);
  if (n_used < kMinPosed) SayTooFew(&report);
  for (const std::string& unreadable : sources.unreadable) report.warnings.push_back(unreadable);
  report.colmap_version = tool.version;
  report.seconds = absl::ToDoubleSeconds(options.clock->Now() - begin);
  NERF_RETURN_IF_ERROR(WriteFileAtomically(work / "pose.json", PoseReportJson(report, out) + "\n"));
  NERF_RETURN_IF_ERROR(
      WriteFileAtomically(work / "pose.txt", PoseReportText(report) + PosedListText(report)));
  NERF_RETURN_IF_ERROR(WritePng(work / "pose.png", PictureFromAbove(report, model)));
  NERF_RETURN_IF_ERROR(
      RemoveAllBut(work, {"images", "sparse", "pose.json", "pose.txt", "pose.png"}));
  NERF_RETURN_IF_ERROR(work.BecomeAs(out));
  return report;
}

}  // namespace nerf
