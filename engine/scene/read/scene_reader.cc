#include "engine/scene/read/scene_reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "engine/scene/decode_views.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/judge/judge_lenses.h"
#include "engine/scene/judge/judge_scene.h"
#include "engine/scene/judge/upright.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/picture_sink.h"
#include "engine/scene/pictures/masks.h"
#include "engine/scene/placement.h"
#include "engine/scene/read/capture_app_reader.h"
#include "engine/scene/read/colmap_reader.h"
#include "engine/scene/read/llff_reader.h"
#include "engine/scene/read/other_exports.h"
#include "engine/scene/read/placement_file.h"
#include "engine/scene/read/polycam_reader.h"
#include "engine/scene/read/transforms_reader.h"
#include "engine/scene/read/unposed_photographs.h"
#include "engine/scene/reduce_views.h"
#include "engine/scene/view_frustum.h"

namespace nerf {
namespace {

constexpr int kDefaultTestEvery = 8;

// A description, and the folder for decoding its images.
struct Described {
  SceneDescription description;
  std::optional<SceneFolder> folder;
  absl::Status folder_error;  // why there is none
};

float MedianOf(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void FillCameraStatistics(const SceneDescription& description, SceneGeometry* geometry) {
  double up[3] = {0, 0, 0};
  std::vector<Vec3> positions;
  for (const auto* views : {&description.train, &description.test}) {
    for (const ViewDescription& view : *views) {
      for (int i = 0; i < 3; ++i) up[i] += view.camera.camera_to_world.m[i][1];
      positions.push_back(view.camera.camera_to_world.Column(3));
    }
  }
  const double length = std::sqrt(up[0] * up[0] + up[1] * up[1] + up[2] * up[2]);
  if (length > 1e-6 * static_cast<double>(positions.size())) {
    geometry->mean_up = {static_cast<float>(up[0] / length), static_cast<float>(up[1] / length),
                         static_cast<float>(up[2] / length)};
  }
  std::vector<float> distances, heights;
  for (const Vec3 position : positions) {
    const Vec3 from_center = position - geometry->box.Center();
    distances.push_back(Norm(from_center));
    heights.push_back(Dot(from_center, geometry->mean_up));
  }
  geometry->median_distance = MedianOf(std::move(distances));
  geometry->median_height = MedianOf(std::move(heights));
}

// Selects the test views of a sorted list.
void Split(const SceneOptions& options, ListedViews* listed, SceneDescription* description) {
  if (!listed->given_split.empty()) {
    description->split = listed->given_split;
    if (options.test_every) {
      description->warnings.push_back(absl::StrCat("the data set gives its own split (",
                                                   listed->given_split,
                                                   "); test_every has no effect"));
    }
    return;
  }
  const int every = options.test_every.value_or(kDefaultTestEvery);
  if (every < 0 || every == 1) {
    description->problems.Add(
        "", "test_every",
        absl::StrCat(every, every == 1 ? " leaves nothing to train on" : " is negative",
                     "; 0 or at least 2 can be used"));
    return;
  }
  description->split = every == 0   ? "all images train"
                       : every == 8 ? "every 8th image"
                                    : absl::StrCat("one image in ", every);
  for (size_t i = 0; i < listed->views.size(); ++i) {
    const bool is_test =
        every > 0 && listed->views.size() > 1 && i % static_cast<size_t>(every) == 0;
    listed->views[i].split = is_test ? ViewSplit::kTest : ViewSplit::kTrain;
  }
}

// Reads the headers of all views in parallel; problems are in the order of the views. Headers that
// were not read have width 0.
std::vector<ImageHeader> ReadHeaders(const SceneFolder& folder, const ListedViews& listed,
                                     const SceneOptions& options, ThreadPool* pool,
                                     Problems* problems) {
  std::vector<ImageHeader> headers(listed.views.size());
  std::vector<std::string> messages(listed.views.size());
  std::atomic<size_t> n_done = 0;
  pool->ParallelFor(static_cast<int64_t>(headers.size()), [&](int64_t index, int thread) {
    if (options.stop.stop_requested()) return;
    if (thread == 0 && options.between_images) options.between_images();
    const size_t done = n_done++;
    if (thread == 0 && options.on_pictures)
      options.on_pictures("headers of pictures", done, headers.size());
    const auto i = static_cast<size_t>(index);
    const std::string path = folder.PathOf(listed.views[i].file);
    absl::StatusOr<ImageHeader> header = ReadImageHeader(path);
    absl::Status status =
        header.ok() ? CheckImageLimits(*header, options.image_limits) : header.status();
    if (status.ok()) {
      headers[i] = *header;
      return;
    }
    messages[i] = std::string(status.message());
    // The problem has a field for the file.
    if (messages[i].compare(0, path.size() + 2, path + ": ") == 0) {
      messages[i].erase(0, path.size() + 2);
    }
  });
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].empty()) problems->Add(listed.views[i].file, "", messages[i]);
  }
  return headers;
}

// A folder in it that holds a data set, as after unpacking; empty if there is none.
std::string FolderWithDataSet(const SceneFolder& folder) {
  std::error_code error, ignored;
  for (std::filesystem::directory_iterator it(folder.PathOf(""), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name[0] == '.' || !it->is_directory(ignored)) continue;
    if (it->is_symlink(ignored) && !folder.follows_links()) continue;
    if (HasSceneFiles(it->path().string())) return name;
  }
  return "";
}

// The views that the data set lists; nullopt after adding a problem that there is no data set.
std::optional<ListedViews> ListViews(const SceneFolder& folder, Problems* problems) {
  if (HasTransforms(folder)) return ReadTransforms(folder, problems);
  if (HasColmapModel(folder)) return ReadColmap(folder, problems);
  if (HasLlff(folder)) return ReadLlff(folder, problems);
  if (HasPolycam(folder)) return ReadPolycam(folder, problems);
  if (HasCaptureApp(folder)) return ReadCaptureApp(folder, problems);
  if (const std::string other = OtherExport(folder); !other.empty()) {
    problems->Add("", "", other);
    return std::nullopt;
  }
  const bool has_pictures = HasPhotographs(folder.PathOf(""));
  const std::string inside = has_pictures ? "" : FolderWithDataSet(folder);
  if (!inside.empty()) {
    problems->Add("", "",
                  absl::StrCat("the data set is in its folder ", Printable(inside), ": name that"));
    return std::nullopt;
  }
  problems->Add(
      "", "",
      absl::StrCat(has_pictures ? "" : "no photographs in it or in images/; ",
                   "contains neither transforms_train.json, transforms.json, a COLMAP model "
                   "(as in sparse/0), nor poses_bounds.npy: there are no camera poses"));
  return std::nullopt;
}

// Takes over what the reader found out about the data set as a whole.
void DescribeList(ListedViews* listed, SceneDescription* description) {
  description->geometry.flavor = listed->flavor;
  description->source = listed->source;
  description->list_files = listed->files;
  description->n_listed = listed->n_listed;
  description->n_missing = listed->n_missing;
  description->n_unposed = listed->n_unposed;
  description->warnings = std::move(listed->warnings);
  if (listed->n_missing > 0 && listed->n_missing < listed->n_listed) {
    description->warnings.push_back(
        absl::StrCat(listed->n_missing, " of ", listed->n_listed,
                     " listed images do not exist and were skipped, e.g. ",
                     Printable(listed->first_missing), ": add them, or take them off the list"));
  }
  if (listed->n_unposed > 0) {
    description->warnings.push_back(
        absl::StrCat(listed->n_unposed, " images in ",
                     listed->picture_folder.empty() ? "it" : listed->picture_folder + "/",
                     " have no pose and are not used"));
  }
  if (listed->n_missing > 0 && listed->n_missing == listed->n_listed) {
    description->problems.Add(
        listed->source, listed->flavor == SceneFlavor::kColmap ? "" : "frames",
        absl::StrCat("none of the ", listed->n_listed, " listed images exists, e.g. ",
                     Printable(listed->first_missing),
                     ": put them there, relative to the folder, or correct the names"));
  }
}

// Makes the cameras of the listed views and adds the views to the description. Views without a
// header or a valid camera are left out. *train_of_id: from ListedView::id to the training view.
void AddViews(const SceneFolder& folder, const ListedViews& listed,
              const std::vector<ImageHeader>& headers, const std::vector<int>& orientations,
              const Similarity& placement, SceneDescription* description,
              std::map<uint32_t, int32_t>* train_of_id, Verdicts* verdicts) {
  const std::vector<ListedView>& views = listed.views;
  std::set<std::string> models, train_files;
  FolderMasks masks(folder, &description->problems);
  LensJudge lenses(folder, verdicts);
  int n_rescaled = 0, n_shared = 0;
  for (size_t i = 0; i < views.size(); ++i) {
    const ListedView& view = views[i];
    if (headers[i].width == 0) continue;
    if (lenses.IsTurned(view, headers[i], !orientations.empty())) continue;
    bool is_rescaled = false;
    std::optional<Camera> camera =
        ResolveCamera(view.intrinsics, headers[i].width, headers[i].height, view.list_file,
                      view.file, &is_rescaled, &description->problems);
    if (!camera) continue;
    camera->camera_to_world = ToMat34(placement.ApplyToPose(view.pose));
    camera->time = view.time;
    n_rescaled += is_rescaled;
    lenses.Add(view, *camera);
    models.insert(
        absl::StrCat(CameraModelName(view.intrinsics), " ", camera->width, "x", camera->height));
    const FoundMask mask =
        view.mask_file.empty() ? masks.Find(view.file) : FoundMask{view.mask_file, false};
    description->alpha_is_mask = description->alpha_is_mask || !mask.file.empty();
    description->has_alpha = description->has_alpha || headers[i].n_channels == 4;
    if (view.split == ViewSplit::kTrain) train_files.insert(view.file);
    auto& described = view.split == ViewSplit::kTest ? description->test : description->train;
    if (view.split != ViewSplit::kTest)
      train_of_id->emplace(view.id, static_cast<int32_t>(description->train.size()));
    described.push_back({view.file, mask.file, *camera, headers[i], view.depth,
                         orientations.empty() ? 1 : orientations[i], mask.is_inverted});
  }
  lenses.Say();
  description->camera_models.assign(models.begin(), models.end());
  for (const ViewDescription& view : description->test) n_shared += train_files.contains(view.file);
  // LLFF's file states the size of pictures that nobody keeps beside the reduced ones.
  if (n_rescaled > 0 && description->source != kLlffFile && !listed.is_reduced) {
    description->warnings.push_back(
        absl::StrCat(n_rescaled,
                     " images have another size than the file says; their intrinsics "
                     "were rescaled"));
  }
  if (n_shared > 0) {
    description->warnings.push_back(absl::StrCat(n_shared, " test views are training views, too"));
  }
}

// Adds what training views show of the points, every eighth one as held out.
void AddPoints(const std::vector<ScenePoint>& points, const Similarity& placement,
               const std::map<uint32_t, int32_t>& train_of_id, SceneDescription* description) {
  constexpr size_t kHeldOut = 8;
  for (size_t i = 0; i < points.size(); ++i) {
    const Vec3d place = placement.ApplyToPoint(points[i].position);
    const Vec3 position{static_cast<float>(place[0]), static_cast<float>(place[1]),
                        static_cast<float>(place[2])};
    auto& seen = i % kHeldOut == 0 ? description->held_out_points : description->points;
    for (const uint32_t image : points[i].images) {
      const auto view = train_of_id.find(image);
      if (view != train_of_id.end()) seen.push_back({view->second, position});
    }
  }
}

// Whether the alpha of pictures is their opacity or a mask.
void SettleAlpha(const SceneOptions& options, SceneDescription* description) {
  if (description->alpha_is_mask && description->has_alpha) {
    description->problems.Add(
        "", "masks", "some pictures have alpha and some have masks; one of them can be used");
  }
  if (!options.alpha_is_mask && !description->alpha_is_mask) return;
  description->alpha_is_mask = description->alpha_is_mask || description->has_alpha;
  description->has_alpha = false;
}

Described Describe(const std::string& dir, const SceneOptions& options, ThreadPool* pool) {
  Described result;
  SceneDescription& description = result.description;
  Problems* const problems = &description.problems;
  const absl::StatusOr<SceneFolder> folder = SceneFolder::Open(dir, options.follow_links);
  if (!folder.ok()) {
    result.folder_error = folder.status();
    problems->Add("", "", std::string(folder.status().message()));
    return result;
  }
  result.folder = *folder;
  std::optional<ListedViews> listed = ListViews(*folder, problems);
  if (!listed) return result;
  ReadPlacementFile(*folder, &*listed, problems);
  DescribeList(&*listed, &description);
  std::stable_sort(listed->views.begin(), listed->views.end(),
                   [](const ListedView& a, const ListedView& b) { return a.file < b.file; });
  Split(options, &*listed, &description);
  std::erase_if(listed->views,
                [](const ListedView& view) { return view.split == ViewSplit::kUnused; });
  Verdicts verdicts(problems, &description.warnings);
  const bool has_odd_poses = JudgePoses(options.reading.poses, &*listed, &verdicts);
  SubtractOrigin(&*listed);
  std::vector<ImageHeader> headers = ReadHeaders(*folder, *listed, options, pool, problems);
  std::vector<int> orientations;  // empty: pictures are read as they lie
  if (options.reading.apply_exif) orientations = TurnUpright(*folder, *listed, &headers);
  const Similarity placement =
      PlaceScene(*listed, options.placement, &description.geometry, &description.warnings);
  std::map<uint32_t, int32_t> train_of_id;
  AddViews(*folder, *listed, headers, orientations, placement, &description, &train_of_id,
           &verdicts);
  for (const auto* views : {&description.train, &description.test})
    CheckDepthHeaders(*folder, *views, options.image_limits, problems);
  AddPoints(listed->points, placement, train_of_id, &description);
  description.nearest = static_cast<float>(listed->near_bound * placement.scale);
  description.farthest = static_cast<float>(listed->far_bound * placement.scale);
  if (!(description.nearest > 0)) FindDepths(&description);
  SettleAlpha(options, &description);
  if (options.to_train && problems->empty()) JudgeCount(*listed, &verdicts);
  if (problems->empty() && description.train.empty()) {
    problems->Add(listed->source, "", "no training view is left");
  }
  FillCameraStatistics(description, &description.geometry);
  description.geometry.frustum = FrustumOfViews(description);
  ReduceViews(options, &description);
  JudgePlaced(*folder, description, has_odd_poses, &verdicts);
  return result;
}

// Whether masks or alpha may leave nothing of the pictures.
bool MayHideAll(const SceneDescription& description) {
  return description.alpha_is_mask || description.has_alpha;
}

// Of the views' depth maps, at most.
uint64_t DepthBytes(const std::vector<ViewDescription>& views) {
  uint64_t n_bytes = 0;
  for (const ViewDescription& view : views) {
    if (view.depth.file.empty()) continue;
    n_bytes += sizeof(uint16_t) * static_cast<uint64_t>(view.camera.width) *
               static_cast<uint64_t>(view.camera.height);
  }
  return n_bytes;
}

// What of max_pixels falls to some of the views; 0: no limit.
uint64_t SharedPixels(const SceneDescription& description,
                      const std::vector<ViewDescription>& views, uint64_t max_pixels) {
  const auto pixels_of = [](const std::vector<ViewDescription>& of) {
    uint64_t n_pixels = 0;
    for (const ViewDescription& view : of) n_pixels += view.header.Pixels();
    return static_cast<double>(n_pixels);
  };
  const double all = pixels_of(description.train) + pixels_of(description.test);
  if (max_pixels == 0 || all <= static_cast<double>(max_pixels)) return 0;
  return std::max<uint64_t>(
      1, static_cast<uint64_t>(static_cast<double>(max_pixels) / all * pixels_of(views)));
}

// The caller's pool, or a temporary one.
class PoolHolder {
 public:
  explicit PoolHolder(const SceneOptions& options) : pool_(options.pool) {
    if (pool_ != nullptr) return;
    own_ = std::make_unique<ThreadPool>(options.n_threads);
    pool_ = own_.get();
  }
  ThreadPool* get() const { return pool_; }

 private:
  std::unique_ptr<ThreadPool> own_;
  ThreadPool* pool_;
};

}  // namespace

bool HasSceneFiles(const std::string& dir) {
  const absl::StatusOr<SceneFolder> folder = SceneFolder::Open(dir, /*follow_links=*/true);
  return folder.ok() && (HasTransforms(*folder) || HasColmapModel(*folder) || HasLlff(*folder) ||
                         HasPolycam(*folder) || HasCaptureApp(*folder));
}

SceneDescription DescribeScene(const std::string& dir, const SceneOptions& options) {
  const PoolHolder pool(options);
  Described described = Describe(dir, options, pool.get());
  SceneDescription& description = described.description;
  if (options.decode_images && described.folder) {
    std::vector<MaskUse> uses;
    for (const auto* views : {&description.train, &description.test}) {
      DecodedPictures to;
      if (views == &description.train && MayHideAll(description)) to.mask_uses = &uses;
      const uint64_t max_pixels = SharedPixels(description, *views, options.max_checked_pixels);
      const std::vector<bool> wanted = ViewsToCheck(*described.folder, *views, max_pixels);
      to.wanted = &wanted;
      description.n_checked += static_cast<int>(std::count(wanted.begin(), wanted.end(), true));
      DecodeViews(*described.folder, *views, options, pool.get(), to, &description.problems);
      if (!description.ok()) continue;
      DecodeDepthFiles(*described.folder, *views, description.geometry.frame.scale, options,
                       /*keep=*/false, pool.get(), &description.problems);
    }
    JudgeMaskUses(uses, &description);
  }
  return std::move(description);
}

absl::StatusOr<Scene> LoadScene(const std::string& dir, const SceneOptions& options,
                                Problems* problems) {
  const PoolHolder pool(options);
  Described described = Describe(dir, options, pool.get());
  SceneDescription& description = described.description;
  const auto refuse = [&] {
    if (problems != nullptr) *problems = description.problems;
    return absl::InvalidArgumentError(SummaryOf(description.problems));
  };
  if (!described.folder) {
    if (problems != nullptr) *problems = description.problems;
    return described.folder_error;
  }
  const absl::Status stopped = absl::CancelledError("reading the data set was stopped");
  if (options.stop.stop_requested()) return stopped;
  if (!description.ok()) return refuse();
  uint64_t kept_bytes =
      options.train_sink != nullptr ? DecodedBytes(description.test) : description.image_bytes;
  if (options.with_depth) kept_bytes += DepthBytes(description.train);
  const size_t n_kept =
      description.test.size() + (options.train_sink != nullptr ? 0 : description.train.size());
  if (options.decode_images && options.memory_limit_bytes > 0 &&
      kept_bytes > options.memory_limit_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s: the %d images need %d bytes (%.1f MiB) decoded; the limit is %d bytes "
                        "(%.1f MiB)",
                        dir, n_kept, kept_bytes, std::ldexp(kept_bytes, -20),
                        options.memory_limit_bytes, std::ldexp(options.memory_limit_bytes, -20)));
  }
  Scene scene;
  scene.geometry = description.geometry;
  scene.has_alpha = description.has_alpha;
  scene.alpha_is_mask = description.alpha_is_mask;
  scene.points = std::move(description.points);
  scene.held_out_points = std::move(description.held_out_points);
  for (const ViewDescription& view : description.train) {
    const ImageHeader& file = view.header;
    if (int64_t{file.width} * file.height > int64_t{scene.picture_width} * scene.picture_height) {
      scene.picture_width = file.width;
      scene.picture_height = file.height;
    }
  }
  bool decodes_train = options.decode_images;
  if (decodes_train && options.train_sink != nullptr) {
    NERF_ASSIGN_OR_RETURN(decodes_train, options.train_sink->Begin(description.train, pool.get()));
  }
  const auto fill = [&](const std::vector<ViewDescription>& descriptions, bool decodes,
                        const DecodedPictures& to) {
    if (decodes) {
      DecodeViews(*described.folder, descriptions, options, pool.get(), to, &description.problems);
      return;
    }
    for (const ViewDescription& view : descriptions) {
      to.views->push_back(
          {view.file, view.camera, options.decode_images ? SizeOnly(view) : ImageU8()});
    }
  };
  std::vector<MaskUse> uses;
  fill(description.train, decodes_train,
       {&scene.train, options.train_sink, MayHideAll(description) ? &uses : nullptr});
  fill(description.test, options.decode_images, {&scene.test});
  if (options.with_depth && description.ok()) {
    scene.depth_maps =
        DecodeDepthFiles(*described.folder, description.train, scene.geometry.frame.scale, options,
                         /*keep=*/true, pool.get(), &description.problems);
  }
  if (options.stop.stop_requested()) return stopped;
  JudgeMaskUses(uses, &description);
  scene.warnings = std::move(description.warnings);
  if (!description.ok()) return refuse();
  for (const SeenPoint& point : HeldOutPoints(scene.depth_maps, scene.train))
    scene.held_out_points.push_back(point);
  return scene;
}

}  // namespace nerf
