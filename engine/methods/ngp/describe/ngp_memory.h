#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/config/train_config.h"
#include "engine/base/layouts/ngp_layers.h"

namespace nerf {

// Memory of trainings of the ngp field on the CPU. The constants below are the engine's own, which
// takes them from here or asserts them.

// Gradients are summed in this many lanes: chunk i adds to lane i mod 32 in order, and lanes are
// summed in order, so that the result does not depend on the number of threads. At most
// this many threads work at once.
inline constexpr int kGradientLanes = 32;
// Samples that rays march before their densities are evaluated.
inline constexpr int kNgpSamplesAhead = 16;
inline constexpr size_t kNgpMarchRayBytes = 44;    // sizeof(kernels::MarchRay)
inline constexpr float kNgpMaxBf16Decay = 0.995f;  // kernels::kMaxBf16Decay
// Words of the layers packed for bf16: two weights a word, and padding that layers may read behind
// the last one.
inline constexpr int kNgpWeightPairs = kNgpWeights / 2 + 16 * kHiddenWidth;

// Whether Adam's moments of the table are kept in bf16: where the table is, and their decays are
// not too small for its precision.
bool NgpKeepsBf16Moments(const TrainConfig& config);

// The parameters with all that Adam, the moving average and the layers keep beside them, in bytes.
size_t NgpParameterBytes(const TrainConfig& config);
// What the CPU step allocates, in bytes.
uint64_t NgpCpuStepBytes(const TrainConfig& config, int n_occupancy_levels, int n_threads);
// One copy of the state as checkpoints hold it, in bytes.
uint64_t NgpStateBytes(const TrainConfig& config, int n_occupancy_levels);

// MethodDescription::ViewerBytes: halves of the table's used entries and of the layers.
double NgpViewerBytes(const TrainConfig& config, int n_occupancy_levels);

// `config` with half_table=0: the host's table and moments in fp32, for steps other than the CPU's.
TrainConfig WithoutHalfTable(TrainConfig config);

}  // namespace nerf
