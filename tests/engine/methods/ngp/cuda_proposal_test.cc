// Training steps with proposals on a CUDA device, or under the host emulation, beside the CPU's.

#include <cmath>

#include "engine/methods/ngp/proposals.h"
#include "tests/engine/methods/cuda_field_expectations.h"

namespace nerf {
namespace {

TrainConfig ProposalConfig() {
  TrainConfig config = Fp32Config();
  NgpSettings& settings = Ngp(config);
  settings.sampler = Sampler::kProposals;
  settings.proposal_samples = 12;
  settings.field_samples = 8;
  settings.finest_resolution = 32;  // smooth: samples that rounding moves see the same
  config.target_samples = 256;
  return config;
}
// Past the annealing of the weights. One ray misses the box.
RayBatch BatchOf(uint32_t step) {
  RayBatch batch = TinyBatch(18 + static_cast<int>(step), step);
  batch.fraction = 0.5;
  for (Ray& ray : batch.rays) ray.t_far = 6;
  batch.rays[2].direction = batch.rays[2].origin * 0.4f;
  return batch;
}

class CudaProposalTest : public CudaTest {
 protected:
  std::unique_ptr<RayStep> OnCpu(const TrainConfig& config, int n_levels = 1) {
    return NewNgpProposalStep(config, TinyGeometry(n_levels), &pool_, {});
  }
  std::unique_ptr<RayStep> OnDevice(const TrainConfig& config, int n_levels = 1) {
    return NewNgpProposalCudaStep(config, TinyGeometry(n_levels), &pool_, {});
  }
  // Both networks of random tables.
  TensorFile Lively(const TrainingStep& step) {
    TensorFile file = LivelyState(step);
    const std::string name = "proposal.field.hash_table";
    Tensor& table = file.tensors.at(name);
    const std::vector<float> values = RandomFloats(table.n_elements(), -1, 1, 78);
    table = TensorFromFloats(values.data(), table.shape, DType::kF32);
    return file;
  }
  ThreadPool pool_{1};
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaProposalTest, testing::Values(CudaPlaces().front()),
                         CudaPlaceName);

// Where the proposal bounds the field its gradients are rounding errors, of which Adam makes whole
// steps. In half precision the field's samples lie elsewhere, too.
constexpr double kProposalState = 50;  // times the tolerance of other steps

TEST_P(CudaProposalTest, StepsAreTheCpusInEveryPrecision) {
  TrainConfig config = ProposalConfig();
  ForEachPrecision(config, [&](uint32_t /*n_steps*/, double loss, double state) {
    const auto cpu = OnCpu(config), device = OnDevice(config);
    const bool is_half = config.cuda_fp32 == 0;
    ExpectFieldStepsLikeTheCpus(cpu.get(), device.get(), Lively(*cpu), 1,
                                is_half ? 0.02 : 10 * loss, is_half ? 0.3 : kProposalState * state,
                                BatchOf);
  });
}

TEST_P(CudaProposalTest, ALearnedBackgroundInNestedBoxesIsTheCpus) {
  TrainConfig config = ProposalConfig();
  Ngp(config).learned_background = 1;
  Ngp(config).contraction = Contraction::kLinf;
  const auto cpu = OnCpu(config, 2), device = OnDevice(config, 2);
  ExpectFieldStepsLikeTheCpus(cpu.get(), device.get(), Lively(*cpu), 1, 10 * kFp32Loss,
                              kProposalState * kFp32State, BatchOf);
}

TEST_P(CudaProposalTest, DeterministicStepsGiveEqualBytesAndGoBack) {
  TrainConfig config = ProposalConfig();
  config.cuda_fp32 = 0;
  config.cuda_deterministic = 1;
  ExpectEqualBytesAndToGoBack([&] { return OnDevice(config); }, "field.hash_table", BatchOf);
}

TEST_P(CudaProposalTest, FilesAreTheCpusAndBrokenOnesChangeNothing) {
  const TrainConfig config = ProposalConfig();
  const auto cpu = OnCpu(config), device = OnDevice(config);
  ExpectFilesLikeTheCpus(
      cpu.get(), device.get(),
      {"field.hash_table", "proposal.adam.second.field.density_mlp.0",
       "proposal.field.color_mlp.1"},
      [](const TensorFile& file) { return WithNan(file, "field.density_mlp.1"); }, BatchOf);
  RayBatch beside = BatchOf(1);
  for (Ray& ray : beside.rays) ray.t_far = 0;
  EXPECT_EQ(device->RunRays(beside).n_trained, 0);
}

TEST_P(CudaProposalTest, ViewsAreTheCpus) {
  for (const int background : {0, 1}) {
    TrainConfig config = ProposalConfig();
    Ngp(config).learned_background = background;
    const auto step = OnCpu(config);
    TensorFile state = Lively(*step);
    state.tensors["average.field.hash_table"] = state.tensors.at("field.hash_table");
    ASSERT_THAT(step->Load(state), IsOk());
    EXPECT_FALSE(step->Snapshot()->NeedsCpu());
    const auto cpu = NewCpuRenderDevice(&pool_), device = NewProposalCudaRenderDevice(0);
    const ViewPicture expected = TinyView(cpu.get(), step->Snapshot(), TinyGeometry());
    EXPECT_GT(Contrast(expected), 60);
    EXPECT_LE(MostDifferent(TinyView(device.get(), step->Snapshot(), TinyGeometry()), expected), 1);
    EXPECT_LE(MostDifferent(
                  TinyView(device.get(), step->Snapshot(), TinyGeometry(), RenderPrecision::kHalf),
                  expected),
              12);
  }
}

}  // namespace
}  // namespace nerf
