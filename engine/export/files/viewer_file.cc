#include "engine/export/files/viewer_file.h"

#include <zlib.h>

#include <cmath>
#include <cstring>
#include <string_view>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"
#include "engine/field/marched_model.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/field.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

constexpr std::string_view kSceneMark = "%NERFD_SCENE%", kBakedMark = "%NERFD_BAKED%",
                           kModelMark = "%NERFD_MODEL%";

// JSON of numbers, each as the shortest text that reads back to the same bits.
std::string ViewerNumbers(std::span<const float> values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}
std::string ViewerNumbers(Vec3 v) { return fmt::format("[{},{},{}]", v.x, v.y, v.z); }
std::string ViewerNumbers(const Mat34& matrix) { return ViewerNumbers({&matrix.m[0][0], 12}); }

// Half of what a camera shows at distance 1: across and up.
std::string SlopesOf(const CaptureCamera& camera) {
  return fmt::format("[{},{}]", 0.5f * (camera.right - camera.left),
                     0.5f * (camera.top - camera.bottom));
}

// The entries of a level that the encoding reads.
uint32_t UsedEntries(const kernels::HashGridShape& shape, int level) {
  if (!shape.IsDense(level)) return shape.entries();
  const auto corners = static_cast<uint32_t>(shape.resolution[level]) + 1;
  return corners * corners * corners;
}

void AppendBytes(const void* from, size_t n, std::string* bytes) {
  bytes->append(static_cast<const char*>(from), n);
}

std::string ViewerBytes(const NgpNetwork& network, const MarchedModel& model) {
  const kernels::HashGridShape& shape = network.shape;
  std::string bytes;
  for (int level = 0; level < shape.n_levels; ++level) {
    AppendBytes(network.half_table + shape.level_size() * level,
                sizeof(Half) * shape.n_features * UsedEntries(shape, level), &bytes);
  }
  for (int i = 0; i < kNgpWeights; ++i) {
    const Half weight = HalfFromFloat(network.weights[i]);  // exact: a model's are halves
    AppendBytes(&weight, sizeof(weight), &bytes);
  }
  const std::vector<uint64_t>& blocks = model.grid().occupied_blocks;
  AppendBytes(blocks.data(), blocks.size() * sizeof(uint64_t), &bytes);
  AppendBytes(model.empty_distances().data(), blocks.size(), &bytes);
  return bytes;
}

template <typename T>
void AppendAll(const std::vector<T>& values, std::string* bytes) {
  AppendBytes(values.data(), values.size() * sizeof(T), bytes);
}

// Compressed by zlib.
std::string BakedBytes(const BakedModel& baked) {
  std::string bytes;
  AppendAll(baked.grid.occupied_blocks, &bytes);
  AppendAll(baked.empty_distances, &bytes);
  AppendAll(baked.base, &bytes);
  AppendAll(baked.slopes, &bytes);
  AppendAll(baked.horizon, &bytes);
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()),
                               static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION);
  NERF_CHECK(result == Z_OK);
  packed.resize(size);
  return packed;
}

std::string BakedJson(const BakedModel& baked, size_t n_bytes) {
  const auto range = [](ByteRange r) { return fmt::format("[{},{}]", r.low, r.high); };
  return fmt::format(
      R"("baked":{{"bytes":{},"nodes":{},"resolution":{},"nodesPerCell":{},"horizon":{},)"
      R"("density":{},"base":{},"slope":{}}},)",
      n_bytes, baked.n_nodes(), baked.grid.resolution, baked.nodes_per_cell, baked.horizon_height,
      range(kBakedDensity), range(kBakedBase), range(kBakedSlope));
}

std::string ViewerTable(const kernels::HashGridShape& shape) {
  std::vector<int> resolutions;
  std::vector<uint32_t> entries;
  for (int level = 0; level < shape.n_levels; ++level) {
    resolutions.push_back(shape.resolution[level]);
    entries.push_back(UsedEntries(shape, level));
  }
  return fmt::format(R"({{"log2Entries":{},"resolutions":[{}],"entries":[{}]}})",
                     shape.log2_hashmap_size, fmt::join(resolutions, ","), fmt::join(entries, ","));
}

std::string ViewerCameras(const ViewerScene& scene) {
  std::vector<std::string> cameras;
  for (const CaptureCamera& camera : scene.photographs) {
    cameras.push_back(fmt::format(R"({{"pose":{},"slopes":{}}})",
                                  ViewerNumbers(camera.camera_to_world), SlopesOf(camera)));
  }
  return fmt::format("[{}]", fmt::join(cameras, ","));
}

std::string ViewerPath(const ViewerScene& scene) {
  std::vector<std::string> poses;
  for (const CaptureCamera& camera : scene.path) {
    poses.push_back(ViewerNumbers(camera.camera_to_world));
  }
  return fmt::format(R"({{"closed":{},"slopes":{},"poses":[{}]}})", scene.path_is_closed,
                     SlopesOf(scene.path.front()), fmt::join(poses, ","));
}

std::string SceneJson(const TrainState& state, const NgpNetwork& network, const MarchedModel& model,
                      const ViewerScene& scene, size_t n_bytes, const std::string& baked) {
  const SceneGeometry& geometry = state.geometry;
  const OccupancyGrid& grid = model.grid();
  const float distance =
      geometry.median_distance > 0 ? geometry.median_distance : 0.5f * geometry.box.Diagonal();
  std::string json = fmt::format(R"({{"format":"nerfd-viewer","version":1,"bytes":{},"table":{},)",
                                 n_bytes, ViewerTable(network.shape));
  json += baked;
  json += fmt::format(R"("box":{{"center":{},"halfSide":{},"count":{},"resolution":{}}},)",
                      ViewerNumbers(grid.box.Center()), 0.5f * grid.box.Size().x, grid.n_levels,
                      grid.resolution);
  json += fmt::format(
      R"("march":{{"near":{},"far":{},"step":{},"cone":{},"minTransmittance":{}}},)", geometry.near,
      geometry.far, geometry.step, geometry.cone, MinTransmittance(state.config));
  json += fmt::format(R"("densityShift":{},"contraction":{},"learnsBackground":{},)",
                      network.density_shift, static_cast<int>(network.contraction),
                      network.learns_background && !scene.crop.has_value());
  if (network.contraction == Contraction::kPerspective) {
    const Frustum& frustum = network.frustum;
    json += fmt::format(R"("frustum":{{"apex":{},"axes":[{},{},{}],"near":{},"slope":{}}},)",
                        ViewerNumbers(frustum.apex), ViewerNumbers(frustum.right),
                        ViewerNumbers(frustum.up), ViewerNumbers(frustum.forward), frustum.near,
                        frustum.slope);
  }
  if (scene.crop.has_value()) {
    const CropBox& crop = *scene.crop;
    json += fmt::format(R"("crop":{{"center":{},"axes":[{},{},{}]}},)", ViewerNumbers(crop.center),
                        ViewerNumbers(crop.axes[0]), ViewerNumbers(crop.axes[1]),
                        ViewerNumbers(crop.axes[2]));
  }
  json += fmt::format(R"("background":{},"ownToTraining":{},"scale":{},)",
                      ViewerNumbers(BackgroundColor(state.evaluation_background)),
                      ViewerNumbers(geometry.frame.own_to_training), geometry.frame.scale);
  if (const Vec3d& origin = geometry.frame.origin; origin != Vec3d{0, 0, 0})
    json += fmt::format(R"("origin":[{}],)", OriginText(origin, ","));
  json += fmt::format(R"("center":{},"up":{},"distance":{},"cameras":{},"path":{}}})",
                      ViewerNumbers(scene.center), ViewerNumbers(scene.up), distance,
                      ViewerCameras(scene), ViewerPath(scene));
  return json;
}

}  // namespace

absl::Status CheckViewable(const TrainConfig& config) {
  if (config.method != "ngp" && config.method != "ngp-autograd") {
    return absl::InvalidArgumentError(
        fmt::format("trained by method {}; the viewer draws ngp and ngp-autograd", config.method));
  }
  const NgpSettings& settings = Ngp(config);
  if (settings.n_features_per_level != 4) {
    return absl::InvalidArgumentError(
        fmt::format("setting n_features_per_level is {}; the viewer draws tables of 4",
                    settings.n_features_per_level));
  }
  if (settings.sampler != Sampler::kGrid) {
    return absl::InvalidArgumentError("setting sampler is proposals; the viewer draws grid");
  }
  return absl::OkStatus();
}

size_t ViewerModelBytes(const TrainedModel& model) {
  const auto& marched = dynamic_cast<const MarchedModel&>(model);
  const NgpNetwork& network = dynamic_cast<const NgpField&>(marched.field()).network();
  return (ViewerBytes(network, marched).size() + 2) / 3 * 4;  // base64
}

std::string ViewerFile(const TrainState& state, const TrainedModel& model, const ViewerScene& scene,
                       const BakedModel* baked, bool has_exact) {
  NERF_CHECK(!scene.path.empty() && (has_exact || baked != nullptr));
  const auto& marched = dynamic_cast<const MarchedModel&>(model);
  const NgpNetwork& network = dynamic_cast<const NgpField&>(marched.field()).network();
  const std::string bytes = has_exact ? ViewerBytes(network, marched) : "";
  const std::string packed = baked != nullptr ? BakedBytes(*baked) : "";
  const std::string baked_json = baked != nullptr ? BakedJson(*baked, packed.size()) : "";
  std::string file;
  std::string_view rest = ViewerPage().front().bytes;
  const auto put = [&](std::string_view mark, const std::string& content) {
    const size_t at = rest.find(mark);
    NERF_CHECK(at != std::string_view::npos);
    file += rest.substr(0, at);
    file += content;
    rest.remove_prefix(at + mark.size());
  };
  put(kSceneMark, SceneJson(state, network, marched, scene, bytes.size(), baked_json));
  put(kBakedMark, absl::Base64Escape(packed));
  put(kModelMark, absl::Base64Escape(bytes));
  file += rest;
  return file;
}

}  // namespace nerf
