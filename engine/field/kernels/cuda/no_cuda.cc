// Replaces the kernels in a build without CUDA: IsAvailable() is false, and launching anything is a
// bug.
#include "engine/base/check.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/contract_positions.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/field_outputs.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/hash_position_gradient.h"
#include "engine/field/kernels/lane_sums.h"
#include "engine/field/kernels/ngp_mlp.h"
#include "engine/field/kernels/occupancy_update.h"
#include "engine/field/kernels/point_warp.h"
#include "engine/field/kernels/ray_gradients.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/kernels/ray_sampling.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/kernels/tile_samples.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/field/kernels/voxels.h"
#include "engine/field/kernels/wide_layers.h"

#define NERF_NO_CUDA() ::nerf::CheckFailed("built with CUDA", __FILE__, __LINE__)

namespace nerf::kernels::cuda {

bool IsBuilt() { return false; }
bool IsAvailable() { return false; }
std::string WhyUnavailable(std::optional<int>) { return "not built (NERF_ENABLE_CUDA is OFF)"; }
int DeviceCount() { return 0; }
DeviceDescription DescribeDevice(int) { NERF_NO_CUDA(); }
void UseDevice(int) { NERF_NO_CUDA(); }
size_t MaxSharedBytesPerBlock() { NERF_NO_CUDA(); }
BufferAllocator* DeviceAllocator() { NERF_NO_CUDA(); }
BufferAllocator* PinnedAllocator() { NERF_NO_CUDA(); }
OwnedStream::OwnedStream() { NERF_NO_CUDA(); }
OwnedStream::~OwnedStream() = default;
void CopyToDevice(void*, const void*, size_t, Stream) { NERF_NO_CUDA(); }
void CopyToHost(void*, const void*, size_t, Stream) { NERF_NO_CUDA(); }
void CopyOnDevice(void*, const void*, size_t, Stream) { NERF_NO_CUDA(); }
void Fill(void*, int, size_t, Stream) { NERF_NO_CUDA(); }
void WaitFor(Stream, Stream) { NERF_NO_CUDA(); }
void Synchronize(Stream) { NERF_NO_CUDA(); }
Event::Event() { NERF_NO_CUDA(); }
Event::~Event() = default;
void Event::Record(Stream) { NERF_NO_CUDA(); }
double Event::SecondsSince(const Event&) const { NERF_NO_CUDA(); }
Graph::Graph(Stream, const std::function<void()>&) { NERF_NO_CUDA(); }
Graph::~Graph() = default;
void Graph::Launch(Stream) const { NERF_NO_CUDA(); }

void AdamDense(const AdamDenseParams&, Stream) { NERF_NO_CUDA(); }
void AdamSparse(const AdamSparseParams&, Stream) { NERF_NO_CUDA(); }
void AddHorizons(const MarchParams&, Stream) { NERF_NO_CUDA(); }
void AddShift(const AddShiftParams<Half>&, Stream) { NERF_NO_CUDA(); }
void AddShift(const AddShiftParams<float>&, Stream) { NERF_NO_CUDA(); }
void AddTile(const AddTileParams&, Stream) { NERF_NO_CUDA(); }
void CompactSamples(const MarchParams&, Stream) { NERF_NO_CUDA(); }
void CompositeLoss(const CompositeLossParams&, Stream) { NERF_NO_CUDA(); }
void CompositeView(const ViewParams<Half>&, int, Stream) { NERF_NO_CUDA(); }
void CompositeView(const ViewParams<float>&, int, Stream) { NERF_NO_CUDA(); }
void ContractPositions(const ContractPositionsParams&, Stream) { NERF_NO_CUDA(); }
void CountInRanges(const CountInRangesParams&, Stream) { NERF_NO_CUDA(); }
void FinishHorizons(const ViewParams<Half>&, Stream) { NERF_NO_CUDA(); }
void FinishHorizons(const ViewParams<float>&, Stream) { NERF_NO_CUDA(); }
void FrequencyEncode(const FrequencyEncodeParams<Half>&, Stream) { NERF_NO_CUDA(); }
void FrequencyEncode(const FrequencyEncodeParams<float>&, Stream) { NERF_NO_CUDA(); }
void HashEncodeBackward(const HashEncodeBackwardParams&, Stream) { NERF_NO_CUDA(); }
void HashEncodeForward(const HashEncodeForwardParams<Half>&, Stream) { NERF_NO_CUDA(); }
void HashEncodeForward(const HashEncodeForwardParams<float>&, Stream) { NERF_NO_CUDA(); }
void HashPositionGradient(const HashPositionGradientParams&, Stream) { NERF_NO_CUDA(); }
void ListHorizons(const ViewParams<Half>&, Stream) { NERF_NO_CUDA(); }
void ListHorizons(const ViewParams<float>&, Stream) { NERF_NO_CUDA(); }
void MarchView(const ViewParams<Half>&, int, Stream) { NERF_NO_CUDA(); }
void MarchView(const ViewParams<float>&, int, Stream) { NERF_NO_CUDA(); }
void MarchWave(const MarchParams&, int, Stream) { NERF_NO_CUDA(); }
void MovingAverage(const MovingAverageParams&, Stream) { NERF_NO_CUDA(); }
void NgpBackward(const NgpBackwardParams<Half>&, Stream) { NERF_NO_CUDA(); }
void NgpBackward(const NgpBackwardParams<float>&, Stream) { NERF_NO_CUDA(); }
template <>
size_t NgpBackwardSharedBytes<Half>() {
  NERF_NO_CUDA();
}
template <>
size_t NgpBackwardSharedBytes<float>() {
  NERF_NO_CUDA();
}
template <>
int NgpBackwardBlocks<Half>() {
  NERF_NO_CUDA();
}
template <>
int NgpBackwardBlocks<float>() {
  NERF_NO_CUDA();
}
void NgpColor(const NgpColorParams<Half>&, Stream) { NERF_NO_CUDA(); }
void NgpColor(const NgpColorParams<float>&, Stream) { NERF_NO_CUDA(); }
void NgpDensity(const NgpDensityParams<Half>&, Stream) { NERF_NO_CUDA(); }
void NgpDensity(const NgpDensityParams<float>&, Stream) { NERF_NO_CUDA(); }
void OutputGradient(const OutputGradientParams<Half>&, Stream) { NERF_NO_CUDA(); }
void OutputGradient(const OutputGradientParams<float>&, Stream) { NERF_NO_CUDA(); }
void PointWarp(const PointWarpParams<Half>&, Stream) { NERF_NO_CUDA(); }
void PointWarp(const PointWarpParams<float>&, Stream) { NERF_NO_CUDA(); }
void PointWarpBackward(const PointWarpBackwardParams<Half>&, Stream) { NERF_NO_CUDA(); }
void PointWarpBackward(const PointWarpBackwardParams<float>&, Stream) { NERF_NO_CUDA(); }
template <>
int PointWarpBackwardBlocks<Half>() {
  NERF_NO_CUDA();
}
template <>
int PointWarpBackwardBlocks<float>() {
  NERF_NO_CUDA();
}
void ProbeCells(const ProbeCellsParams&, Stream) { NERF_NO_CUDA(); }
void RayGradients(const RayGradientsParams&, Stream) { NERF_NO_CUDA(); }
void ReluDensity(const ReluDensityParams<Half>&, Stream) { NERF_NO_CUDA(); }
void ReluDensity(const ReluDensityParams<float>&, Stream) { NERF_NO_CUDA(); }
void SampleRays(const SampleRaysParams&, Stream) { NERF_NO_CUDA(); }
void SelectTile(const SelectTileParams&, Stream) { NERF_NO_CUDA(); }
void SpreadBlockMaximum(const SpreadBlockMaximumParams&, Stream) { NERF_NO_CUDA(); }
void FetchTileGradient(const TileGradientParams&, Stream) { NERF_NO_CUDA(); }
void SetTileColor(const TileColorParams&, Stream) { NERF_NO_CUDA(); }
void SetTileDensity(const TileDensityParams&, Stream) { NERF_NO_CUDA(); }
void SetOccupiedBits(const SetOccupiedBitsParams&, Stream) { NERF_NO_CUDA(); }
void EmptyDistances(const EmptyDistancesParams&, Stream) { NERF_NO_CUDA(); }
void SigmoidColor(const SigmoidColorParams<Half>&, Stream) { NERF_NO_CUDA(); }
void SigmoidColor(const SigmoidColorParams<float>&, Stream) { NERF_NO_CUDA(); }
void SumRows(const SumRowsParams&, Stream) { NERF_NO_CUDA(); }
void SphericalHarmonics(const SphericalHarmonicsParams<Half>&, Stream) { NERF_NO_CUDA(); }
void SphericalHarmonics(const SphericalHarmonicsParams<float>&, Stream) { NERF_NO_CUDA(); }
void StartView(const ViewParams<Half>&, Stream) { NERF_NO_CUDA(); }
void StartView(const ViewParams<float>&, Stream) { NERF_NO_CUDA(); }
void VoxelBackward(const VoxelBackwardParams&, Stream) { NERF_NO_CUDA(); }
void VoxelColor(const VoxelColorParams&, Stream) { NERF_NO_CUDA(); }
void VoxelDensity(const VoxelDensityParams&, Stream) { NERF_NO_CUDA(); }
void VoxelVariation(const VoxelVariationParams&, Stream) { NERF_NO_CUDA(); }
void WideBackward(const WideBackwardParams<Half>&, Stream) { NERF_NO_CUDA(); }
void WideBackward(const WideBackwardParams<float>&, Stream) { NERF_NO_CUDA(); }
void WideForward(const WideForwardParams<Half>&, Stream) { NERF_NO_CUDA(); }
void WideForward(const WideForwardParams<float>&, Stream) { NERF_NO_CUDA(); }
void WideGradient(const WideGradientParams<Half>&, Stream) { NERF_NO_CUDA(); }
void WideGradient(const WideGradientParams<float>&, Stream) { NERF_NO_CUDA(); }

}  // namespace nerf::kernels::cuda
