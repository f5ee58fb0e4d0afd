#include "engine/scene/posing/scene_addition.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/files/made_folder.h"
#include "common/process/child_failure.h"
#include "common/status_macros.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/masks.h"
#include "engine/scene/posing/colmap_runner.h"
#include "engine/scene/posing/old_scene.h"
#include "engine/scene/posing/pose_costs.h"
#include "engine/scene/posing/pose_files.h"
#include "engine/scene/posing/pose_search.h"
#include "engine/scene/posing/work_folder.h"
#include "engine/scene/read/scene_reader.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kAddStages =
    6;  // after the photographs: the scene, 2 x features and matches, cameras
constexpr int kTries = 2;
constexpr uint64_t kMaxCopiedBytes = uint64_t{512} << 20;
// Of the old cameras' extent: how far they may lie from where they were, once COLMAP's own shift
// and scale are undone.
constexpr double kMaxMoved = 1e-4;
constexpr double kMinExtent = 1e-3;       // of the old cameras; smaller ones are scaled for COLMAP
constexpr double kMinExtentShare = 1e-6;  // of their distance from the origin: rounding

double DistanceBetween(const std::array<double, 3>& a, const std::array<double, 3>& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

// COLMAP shifts and scales a model as it goes, but does not turn it.
struct ShiftAndScale {
  double scale = 1;
  std::array<double, 3> from{}, to{};  // x -> to + scale (x - from)

  std::array<double, 3> Apply(const std::array<double, 3>& x) const {
    std::array<double, 3> y;
    for (size_t i = 0; i < 3; ++i) y[i] = to[i] + scale * (x[i] - from[i]);
    return y;
  }
};

// Center of points and their mean distance from it.
std::pair<std::array<double, 3>, double> ExtentOf(
    const std::vector<std::array<double, 3>>& points) {
  const auto n = static_cast<double>(points.size());
  std::array<double, 3> center{};
  for (const auto& point : points) {
    for (size_t i = 0; i < 3; ++i) center[i] += point[i] / n;
  }
  double extent = 0;
  for (const auto& point : points) extent += DistanceBetween(point, center) / n;
  return {center, extent};
}

// From the old cameras to such as COLMAP reckons well with, at most scaled and shifted. Errors:
// InvalidArgument if they are all in one place.
absl::StatusOr<ShiftAndScale> ForColmap(const OldScene& scene) {
  std::vector<std::array<double, 3>> centers;
  double farthest = 0;
  for (const OldView& view : scene.views) {
    centers.push_back(view.pose.center);
    farthest = std::max(farthest, DistanceBetween(view.pose.center, {}));
  }
  const auto [center, extent] = ExtentOf(centers);
  if (!(extent > kMinExtentShare * farthest)) {
    return absl::InvalidArgumentError(
        "the scene's cameras all have the same position: photographs cannot be placed by them");
  }
  ShiftAndScale change;
  change.from = scene.description.geometry.frame.origin;
  if (extent > kMinExtent && extent < 1 / kMinExtent) return change;
  change.scale = 1 / extent;
  change.from = center;
  return change;
}

// From cameras of the model to where they were. Errors: Internal if that is no shift and scale.
absl::StatusOr<ShiftAndScale> BackToOld(const OldScene& scene, const PosedModel& model) {
  std::vector<std::pair<std::array<double, 3>, std::array<double, 3>>> pairs;
  std::vector<std::array<double, 3>> all_now, all_before;
  ShiftAndScale back;
  for (const OldView& view : scene.views) {
    const auto found = model.photos.find(view.photo.file);
    if (found == model.photos.end()) continue;
    pairs.push_back({found->second.center, view.pose.center});
    all_now.push_back(found->second.center);
    all_before.push_back(view.pose.center);
  }
  double extent_now = 0, extent_before = 0;
  std::tie(back.from, extent_now) = ExtentOf(all_now);
  std::tie(back.to, extent_before) = ExtentOf(all_before);
  if (!(extent_now > 0) || !(extent_before > 0)) {
    return absl::InvalidArgumentError(
        "the scene's cameras that COLMAP keeps all have the same position: photographs cannot be "
        "placed by them");
  }
  back.scale = extent_before / extent_now;
  for (const auto& [now, before] : pairs) {
    if (DistanceBetween(back.Apply(now), before) > kMaxMoved * extent_before)
      return absl::InternalError("COLMAP has moved cameras of the scene");
  }
  return back;
}

class Addition {
 public:
  Addition(const ColmapTool& tool, const WorkFolder& work, const PoseOptions& options)
      : tool_(tool),
        work_(work),
        options_(options),
        stages_(options.on_progress, options.clock, options.pool->n_threads()),
        runner_(&tool_, &work_, &options_, &stages_) {}

  // The new photographs, and the old scene.
  absl::Status Prepare(const PhotoSources& sources, const std::string& folder) {
    stages_.Expect(StagesOfReading(sources) + kAddStages);
    NERF_ASSIGN_OR_RETURN(photos_, ReadPictures(sources, work_, options_, &stages_));
    NERF_RETURN_IF_ERROR(MakeFolder(copies()));
    stages_.Begin("reading the scene", "photographs");
    const PrepareOptions prepare{options_.pool, options_.stop,
                                 [this](size_t done, size_t of) {
                                   stages_.Advance(static_cast<int>(done), static_cast<int>(of));
                                 },
                                 "", options_.max_memory_bytes};
    NERF_ASSIGN_OR_RETURN(scene_, ReadOldScene(folder, copies(), prepare));
    NERF_ASSIGN_OR_RETURN(for_colmap_, ForColmap(scene_));
    NERF_RETURN_IF_ERROR(NamePhotos(folder));
    return CopyPhotos();
  }

  absl::Status Run() {
    const size_t n = all_.size();
    const double n_pairs = static_cast<double>(n) * (static_cast<double>(n) - 1) / 2;
    const std::string few = work_ / "few.db";
    Begin("extracting coarse features", "photographs", n,
          ExtractCost(all_, kFewFeaturesSide, false));
    NERF_RETURN_IF_ERROR(Extract(few, kFewFeatures, kFewFeaturesSide, false));
    Begin("matching coarse features of all pairs", "photographs", n,
          MatchCost(n_pairs, kFewFeatures));
    NERF_RETURN_IF_ERROR(runner_.MatchAll(few));
    NERF_ASSIGN_OR_RETURN(matches_, ReadColmapDatabase(few));
    Begin("extracting features", "photographs", n, ExtractCost(all_, kFeaturesSide, true));
    NERF_RETURN_IF_ERROR(Extract(database(), kFeatures, kFeaturesSide, true));
    std::vector<ColmapPair> pairs = StrongestPairs(matches_.pairs, kPairsPerPhoto);
    for (int i = 0; i < kTries; ++i) {
      if (i > 0) {
        pairs = AllPairsOfNew();
        stages_.Expect(2);
      }
      Begin(absl::StrCat("matching features of ", i > 0 ? "all" : "overlapping", " pairs"),
            "photographs", n, MatchCost(static_cast<double>(pairs.size()), kFeatures));
      NERF_RETURN_IF_ERROR(runner_.MatchPairs(database(), pairs, kPairsPerList));
      NERF_ASSIGN_OR_RETURN(matches_, ReadColmapDatabase(database()));
      NERF_RETURN_IF_ERROR(Place(i > 0));
      if (ShareOfUsable() >= options_.min_posed_share) break;
    }
    return absl::OkStatus();
  }

  absl::Status Write(const std::string& folder) {
    std::vector<AddedPhoto> added;
    std::map<std::string, uint32_t> number_of;  // by the copies' names: as WriteAddedScene has it
    for (const Photo& photo : photos_) {
      const auto found = model_.photos.find(photo.file);
      if (photo.file.empty() || found == model_.photos.end()) continue;
      const Lens& lens = lenses_.at(photo.file);
      number_of[copy_of_.at(photo.file)] = static_cast<uint32_t>(added.size());
      added.push_back({photo.file, found->second, cameras_.at(photo.file), lens.old});
    }
    for (const OldView& view : scene_.views) {
      number_of[view.photo.file] = static_cast<uint32_t>(number_of.size());
    }
    std::vector<ColmapPoint> points;
    for (ColmapPoint point : model_.points) {
      std::vector<uint32_t> images;
      bool is_seen_anew = false;
      for (const uint32_t id : point.images) {
        const auto name = copy_name_of_.find(id);
        if (name == copy_name_of_.end()) continue;
        const auto known = number_of.find(name->second);
        if (known == number_of.end()) continue;
        images.push_back(known->second);
        is_seen_anew = is_seen_anew || known->second < added.size();
      }
      point.images = std::move(images);
      if (is_seen_anew) points.push_back(std::move(point));
    }
    NERF_RETURN_IF_ERROR(RemoveUnposed());
    return WriteAddedScene(scene_, folder, added, points, work_ / "");
  }

  const std::vector<Photo>& photos() const { return photos_; }
  // Whether there are masks that the new scene cannot have.
  bool leaves_out_masks() const { return leaves_out_masks_; }
  const PosedModel& model() const { return model_; }

  // As of the new photographs' own names.
  ColmapDatabase Matches() const {
    std::map<std::string, std::string> names;
    for (const auto& [file, copy] : copy_of_) names[copy] = file;
    const auto name = [&](const std::string& copy) {
      const auto found = names.find(copy);
      return found == names.end() ? copy : found->second;
    };
    ColmapDatabase matches;
    for (const auto& [copy, n] : matches_.n_features) matches.n_features[name(copy)] = n;
    for (const ColmapPair& pair : matches_.pairs)
      matches.pairs.push_back({name(pair.first), name(pair.second), pair.n_inliers});
    return matches;
  }

 private:
  struct Lens {
    int index = 0;  // of all_: those of the scene first
    int old = -1;   // of OldScene::lenses
  };

  std::string copies() const { return work_ / "copies"; }
  std::string copy_masks() const { return work_ / "copy_masks"; }
  std::string database() const { return work_ / "features.db"; }
  std::string Pictures() const {
    return scene_.pictures.empty() ? work_ / "" : work_ / scene_.pictures;
  }

  void Begin(const std::string& doing, std::string_view unit, size_t of, const PlannedStage& cost) {
    stages_.Begin(doing, unit, static_cast<int>(of), cost);
  }

  // Leaves out doubles of the scene's pictures. The others get names that are not in the scene,
  // such that no old mask is found for a new picture and no new mask for an old one.
  absl::Status NamePhotos(const std::string& folder) {
    NERF_ASSIGN_OR_RETURN(const SceneFolder old, SceneFolder::Open(folder));
    PhotoNames names;
    for (const OldView& view : scene_.views) names.Add(view.file);
    const std::string prefix = scene_.pictures.empty() ? "" : scene_.pictures + "/";
    // One's new name may be another's old one.
    std::error_code error;
    fs::rename(work_ / "masks", work_ / "new_masks", error);
    fs::rename(work_ / "images", work_ / "new_images", error);
    if (error) return ErrnoToStatus(error.value(), "cannot name the photographs");
    NERF_RETURN_IF_ERROR(MakeFolder(Pictures()));
    for (Photo& photo : photos_) {
      if (photo.file.empty()) continue;
      const std::string from = work_ / ("new_images/" + photo.file);
      const auto same = std::find_if(scene_.views.begin(), scene_.views.end(),
                                     [&](const OldView& v) { return AreDoubles(photo, v.photo); });
      if (same != scene_.views.end()) {
        photo.double_of = same->photo.name;
        photo.file.clear();
        continue;
      }
      const std::string wanted = photo.file;
      for (int n = 2;
           !FindMask(old, prefix + photo.file).empty() || !names.IsFree(prefix + photo.file); ++n) {
        photo.file = absl::StrCat(n, "_", wanted);
      }
      names.Add(prefix + photo.file);
      NERF_RETURN_IF_ERROR(CopyFile(from, Pictures() + "/" + photo.file, kMaxCopiedBytes));
      fs::remove(from, error);
      NERF_RETURN_IF_ERROR(NameMask(wanted, photo.file));
    }
    return absl::OkStatus();
  }

  // The mask of a photograph that was named `before` goes where trainings look for it.
  absl::Status NameMask(const std::string& before, const std::string& now) {
    const std::string from = work_ / ("new_masks/" + before + ".png");
    std::error_code error;
    if (!fs::exists(from, error)) return absl::OkStatus();
    leaves_out_masks_ = scene_.pictures != "images" || scene_.description.has_alpha;
    if (leaves_out_masks_) return absl::OkStatus();
    return CopyFile(from, work_ / ("masks/" + now + ".png"), kMaxCopiedBytes);
  }

  // For COLMAP, beside those of the scene; decides which lens each has.
  absl::Status CopyPhotos() {
    for (const OldView& view : scene_.views) all_.push_back(view.photo);
    for (const Photo& photo : photos_) {
      if (photo.file.empty()) continue;
      Photo copy = photo;
      copy.file =
          absl::StrFormat("n%06d%s", all_.size(), fs::path(photo.file).extension().string());
      Lens lens;
      std::set<int> like;
      for (const OldView& view : scene_.views) {
        if (SameLens(photo, view.photo)) like.insert(view.photo.lens);
      }
      // Where pictures of one lens have intrinsics of their own, so has this one.
      lens.old = like.size() == 1 ? *like.begin() : -1;
      lens.index = lens.old >= 0 ? lens.old : static_cast<int>(scene_.lenses.size()) + photo.lens;
      has_new_lens_ = has_new_lens_ || lens.old < 0;
      copy.lens = lens.index;
      lenses_[photo.file] = lens;
      copy_of_[photo.file] = copy.file;
      NERF_RETURN_IF_ERROR(
          CopyFile(Pictures() + "/" + photo.file, copies() + "/" + copy.file, kMaxCopiedBytes));
      const std::string mask = work_ / ("masks/" + photo.file + ".png");
      std::error_code error;
      if (fs::exists(mask, error)) {
        NERF_RETURN_IF_ERROR(
            CopyFile(mask, copy_masks() + "/" + copy.file + ".png", kMaxCopiedBytes));
      }
      all_.push_back(std::move(copy));
    }
    return absl::OkStatus();
  }

  absl::Status Extract(const std::string& database, int features, int side, bool doubled) {
    ExtractTask task{database, copies(), "", features, side, doubled, {}};
    for (size_t i = 0; i < scene_.lenses.size(); ++i)
      task.lenses[static_cast<int>(i)] = scene_.lenses[i];
    std::error_code ignored;
    if (fs::exists(copy_masks(), ignored)) task.masks = copy_masks();
    return runner_.Extract(all_, task);
  }

  std::vector<ColmapPair> AllPairsOfNew() const {
    std::vector<ColmapPair> pairs;
    for (size_t i = scene_.views.size(); i < all_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) pairs.push_back({all_[j].file, all_[i].file, 0});
    }
    return pairs;
  }

  // The scene as COLMAP knows it, without points.
  absl::Status WriteKnown(const std::map<std::string, ColmapIds>& ids, const std::string& folder) {
    ColmapModel model;
    for (const OldView& view : scene_.views) {
      const auto known = ids.find(view.photo.file);
      if (known == ids.end()) return absl::DataLossError("COLMAP's database lacks a photograph");
      const KnownLens& lens = scene_.lenses[static_cast<size_t>(view.photo.lens)];
      ColmapCamera& camera = model.cameras[known->second.camera];
      camera.model = FindColmapCameraModel(lens.model);
      camera.width = static_cast<uint64_t>(view.photo.width);
      camera.height = static_cast<uint64_t>(view.photo.height);
      camera.params = NumbersOf(lens.params);
      PosedPhoto pose = view.pose;
      pose.center = for_colmap_.Apply(pose.center);
      model.images.push_back(
          ToColmapImage(pose, known->second.image, known->second.camera, view.photo.file));
    }
    return WriteColmapText(folder, model, {});
  }

  static std::vector<double> NumbersOf(const std::string& params) {
    std::vector<double> numbers;
    for (const char* at = params.c_str(); *at != '\0';) {
      char* end = nullptr;
      numbers.push_back(std::strtod(at, &end));
      at = *end == ',' ? end + 1 : end;
    }
    return numbers;
  }

  // Registers the new photographs into the scene, whose cameras stay.
  absl::Status Place(bool relaxed) {
    Begin("placing cameras", "photographs", copy_of_.size(), PlaceCost(copy_of_.size()));
    const std::string suffix = relaxed ? "_relaxed" : "";
    const std::string known = work_ / ("known" + suffix), points = work_ / ("points" + suffix),
                      placed = work_ / ("placed" + suffix);
    NERF_ASSIGN_OR_RETURN(const auto ids, ReadColmapIds(database()));
    NERF_RETURN_IF_ERROR(WriteKnown(ids, known));
    NERF_RETURN_IF_ERROR(MakeFolder(points));
    NERF_RETURN_IF_ERROR(MakeFolder(placed));
    NERF_ASSIGN_OR_RETURN(
        const ChildProcessEnd found,
        runner_.Run(TriangulateCommand(tool_, database(), copies(), known, points),
                    [](std::string_view) {}));
    if (FoundNoPoints(found)) {
      return absl::InvalidArgumentError(
          "the scene's poses and lenses do not fit its pictures: COLMAP finds no point by them");
    }
    NERF_RETURN_IF_ERROR(FailureOf("colmap", StageName(ColmapStage::kMap), found));
    const MapOptions map{database(), copies(),       placed, runner_.threads(),
                         relaxed,    !has_new_lens_, points};
    NERF_ASSIGN_OR_RETURN(
        const ChildProcessEnd end, runner_.Run(MapCommand(tool_, map), [&](std::string_view line) {
          const auto progress = ParseProgress(ColmapStage::kMap, line);
          if (!progress.has_value()) return;
          const int n_old = static_cast<int>(scene_.views.size());
          stages_.Advance(std::max(0, progress->done - n_old), static_cast<int>(copy_of_.size()));
        }));
    NERF_RETURN_IF_ERROR(FailureOf("colmap", StageName(ColmapStage::kMap), end));
    NERF_RETURN_IF_ERROR(Take(placed));
    stages_.End(
        static_cast<int>(std::count_if(copy_of_.begin(), copy_of_.end(), [this](const auto& entry) {
          return model_.photos.contains(entry.first);
        })));
    return absl::OkStatus();
  }

  // The new photographs of a model, in the scene's frame.
  absl::Status Take(const std::string& folder) {
    NERF_ASSIGN_OR_RETURN(PosedModel model, ReadPosedModel(folder));
    NERF_ASSIGN_OR_RETURN(const ColmapModel files, ReadModelFiles(folder));
    NERF_ASSIGN_OR_RETURN(const ShiftAndScale back, BackToOld(scene_, model));
    model_ = PosedModel();
    model_.lenses = model.lenses;
    model_.reprojection_error = model.reprojection_error;
    model_.parallax_degrees = model.parallax_degrees;
    for (const OldView& view : scene_.views) model_.photos[view.photo.file] = view.pose;
    for (const auto& [file, copy] : copy_of_) {
      const auto found = model.photos.find(copy);
      if (found == model.photos.end()) continue;
      found->second.center = back.Apply(found->second.center);
      model_.photos[file] = found->second;
    }
    model_.points = std::move(model.points);
    for (ColmapPoint& point : model_.points) point.position = back.Apply(point.position);
    copy_name_of_.clear();
    std::map<std::string, uint32_t> camera_of;
    for (const ColmapImage& image : files.images) {
      copy_name_of_[image.id] = image.name;
      camera_of[image.name] = image.camera_id;
    }
    cameras_.clear();
    for (const auto& [file, copy] : copy_of_) {
      const auto camera = camera_of.find(copy);
      if (camera != camera_of.end()) cameras_[file] = files.cameras.at(camera->second);
    }
    return absl::OkStatus();
  }

  double ShareOfUsable() const {
    size_t n_usable = 0, n_posed = 0;
    for (const Photo& photo : photos_) {
      if (photo.file.empty() || photo.is_blurred) continue;
      ++n_usable;
      n_posed += model_.photos.contains(photo.file);
    }
    return n_usable == 0 ? 1 : static_cast<double>(n_posed) / static_cast<double>(n_usable);
  }

  // Pictures without a pose would only be counted as such again.
  absl::Status RemoveUnposed() {
    for (const Photo& photo : photos_) {
      if (photo.file.empty() || model_.photos.contains(photo.file)) continue;
      std::error_code error;
      fs::remove(Pictures() + "/" + photo.file, error);
      if (error) return ErrnoToStatus(error.value(), absl::StrCat("cannot remove ", photo.file));
      fs::remove(work_ / ("masks/" + photo.file + ".png"), error);
    }
    return absl::OkStatus();
  }

  const ColmapTool& tool_;
  const WorkFolder& work_;
  const PoseOptions& options_;
  PoseStages stages_;
  ColmapRunner runner_;
  OldScene scene_;
  ShiftAndScale for_colmap_;
  std::vector<Photo> photos_;           // the new ones
  std::vector<Photo> all_;              // the copies that COLMAP sees, those of the scene first
  std::map<std::string, Lens> lenses_;  // of the new ones, by file
  std::map<std::string, std::string> copy_of_;  // likewise
  bool has_new_lens_ = false;
  bool leaves_out_masks_ = false;
  ColmapDatabase matches_;
  PosedModel model_;                              // the scene's frame; the new ones by file
  std::map<std::string, ColmapCamera> cameras_;   // of the new ones
  std::map<uint32_t, std::string> copy_name_of_;  // by the id in model_.points
};

}  // namespace

absl::Status CheckAddition(const std::string& source, const std::string& scene,
                           const std::string& out, const PoseOptions& options) {
  if (!HasSceneFiles(scene)) {
    return absl::InvalidArgumentError(
        absl::StrCat(scene, ": is no posed data set that photographs could be added to"));
  }
  return CheckPoseSearch(source, out, options);
}

absl::StatusOr<PoseReport> AddPhotographs(const std::string& source, const std::string& scene,
                                          const std::string& out, const PoseOptions& options) {
  const SteadyTime begin = options.clock->Now();
  NERF_RETURN_IF_ERROR(CheckAddition(source, scene, out, options));
  NERF_ASSIGN_OR_RETURN(const PhotoSources sources, ListPhotoSources(source));
  NERF_ASSIGN_OR_RETURN(const ColmapTool tool, FindColmap(options.colmap));
  const fs::path parent = fs::absolute(out).lexically_normal().parent_path();
  NERF_ASSIGN_OR_RETURN(const MadeFolder made, MadeFolder::Make(parent.string()));
  NERF_ASSIGN_OR_RETURN(WorkFolder work, WorkFolder::Create(out));
  Addition addition(tool, work, options);
  NERF_RETURN_IF_ERROR(addition.Prepare(sources, scene));
  const std::vector<Photo>& photos = addition.photos();
  const bool has_any = std::any_of(photos.begin(), photos.end(),
                                   [](const Photo& photo) { return !photo.file.empty(); });
  if (!has_any) {
    const Photo& first = photos[0];
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": holds no photograph to add (", first.name, ": ",
                     first.error.empty() ? "the same as " + first.double_of : first.error, ")"));
  }
  NERF_RETURN_IF_ERROR(addition.Run());
  PoseReport report = MakePoseReport(photos, addition.model(), {}, addition.Matches());
  for (const std::string& unreadable : sources.unreadable) report.warnings.push_back(unreadable);
  if (addition.leaves_out_masks()) {
    report.warnings.push_back(
        "masks are not used: the scene's pictures have alpha or are not in images/");
  }
  report.colmap_version = tool.version;
  report.seconds = absl::ToDoubleSeconds(options.clock->Now() - begin);
  NERF_RETURN_IF_ERROR(addition.Write(scene));
  NERF_RETURN_IF_ERROR(WriteReportFiles(report, addition.model(), work, out));
  std::set<std::string> kept;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(work / "", error))
    kept.insert(entry.path().filename().string());
  for (const char* gone : {"copies", "copy_masks", "new_images", "new_masks", "few.db",
                           "features.db", "list.txt", "pairs.txt", "known", "points", "placed",
                           "known_relaxed", "points_relaxed", "placed_relaxed"})
    kept.erase(gone);
  NERF_RETURN_IF_ERROR(work.BecomeAs(out, kept));
  return report;
}

}  // namespace nerf
