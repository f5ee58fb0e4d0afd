#include "engine/methods/ngp/describe/ngp_memory.h"

#include <algorithm>
#include <cmath>

#include "engine/base/config/step_size.h"
#include "engine/base/vec3.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {
namespace {

// Activations of the chunks of one thread, beside the gradients of a level.
constexpr size_t kThreadBytes = size_t{16} << 20;
// A checkpoint holds weights, two moments and the moving average, each in fp32.
constexpr size_t kSavedBytesPerParameter = 4 * sizeof(float);

size_t TableFloats(const TrainConfig& config) {
  return size_t{kEncodingWidth} << Log2HashmapSize(config);
}

size_t GridCells(const TrainConfig& config, int n_levels) {
  const auto side = static_cast<size_t>(GridResolution(config));
  return static_cast<size_t>(n_levels) * side * side * side;
}

}  // namespace

bool NgpKeepsBf16Moments(const TrainConfig& config) {
  return Ngp(config).half_table != 0 && std::max(config.beta1, config.beta2) <= kNgpMaxBf16Decay;
}

size_t NgpParameterBytes(const TrainConfig& config) {
  const size_t moments = NgpKeepsBf16Moments(config) ? sizeof(uint32_t) : 2 * sizeof(float);
  const size_t halves = Ngp(config).half_table != 0 ? sizeof(uint16_t) : 0;
  return TableFloats(config) * (2 * sizeof(float) + moments + halves) +
         kNgpWeights * (5 + kGradientLanes) * sizeof(float) +
         kNgpWeightPairs * 2 * sizeof(uint32_t);
}

uint64_t NgpCpuStepBytes(const TrainConfig& config, int n_occupancy_levels, int n_threads) {
  const size_t cells = GridCells(config, n_occupancy_levels);
  const size_t samples = MaxStepSamples(config) * (kEncodingWidth * sizeof(float) + sizeof(Vec3));
  // Steps of long rays march further ahead, with fewer rays in proportion.
  const auto max_rays = static_cast<size_t>(StepSizeOf(config).max_rays);
  const size_t rays =
      max_rays * (kNgpSamplesAhead * (2 * sizeof(float) + sizeof(uint32_t)) + kNgpMarchRayBytes);
  const size_t view_terms =
      Ngp(config).appearance_rate > 0 ? max_rays * kHiddenWidth * sizeof(float) : 0;
  const size_t level_gradients =
      (size_t(Ngp(config).n_features_per_level) << Log2HashmapSize(config)) * sizeof(float);
  const size_t threads = static_cast<size_t>(n_threads) * (kThreadBytes + level_gradients);
  const size_t proposal =
      Ngp(config).sampler == Sampler::kProposals ? NgpParameterBytes(NgpProposalConfig(config)) : 0;
  return proposal + NgpParameterBytes(config) + cells * sizeof(float) + cells / 8 + samples + rays +
         view_terms + threads;
}

uint64_t NgpStateBytes(const TrainConfig& config, int n_occupancy_levels) {
  size_t n_parameters = TableFloats(config);
  for (const NgpLayer& layer : kNgpLayers)
    n_parameters += static_cast<size_t>(layer.n_in) * layer.n_out_used;
  if (Ngp(config).sampler == Sampler::kProposals)
    n_parameters += TableFloats(NgpProposalConfig(config)) + kNgpWeights;
  return n_parameters * kSavedBytesPerParameter +
         GridCells(config, n_occupancy_levels) * sizeof(float);
}

double NgpViewerBytes(const TrainConfig& config, int n_occupancy_levels) {
  const NgpSettings& settings = Ngp(config);
  if (settings.n_features_per_level != 4 || settings.sampler != Sampler::kGrid) return 0;
  const int n_levels = kEncodingWidth / settings.n_features_per_level;
  const double finest =
      std::ldexp(FinestResolution(config), EncodingDoublings(config, n_occupancy_levels));
  double n_halves = kNgpWeights;
  for (int level = 0; level < n_levels; ++level) {
    const double corners =
        HashLevelResolution(level, n_levels, kBaseResolution, static_cast<int>(finest)) + 1.0;
    n_halves += settings.n_features_per_level *
                std::min(corners * corners * corners, std::ldexp(1.0, Log2HashmapSize(config)));
  }
  return n_halves * sizeof(uint16_t);
}

TrainConfig WithoutHalfTable(TrainConfig config) {
  Ngp(config).half_table = 0;
  return config;
}

}  // namespace nerf
