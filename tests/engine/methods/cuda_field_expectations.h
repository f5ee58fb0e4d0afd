#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

#include "engine/views/render/render_device.h"
#include "tests/engine/methods/ngp/cuda_step_expectations.h"
#include "tests/testing/step_expectations.h"

// Steps and views of methods beside ngp on a CUDA device, or under the host emulation, beside the
// CPU's.
namespace nerf {

// All tensors of both but Adam's second moments, and the grid's bits, which follow from its values.
inline void ExpectSimilarStates(const TensorFile& found, const TensorFile& expected,
                                double tolerance) {
  EXPECT_EQ(found.metadata, expected.metadata);
  EXPECT_EQ(found.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(found.tensors.contains(name)) << name;
    if (tensor.dtype != DType::kF32 || name.find("adam.second.") != std::string::npos) continue;
    // A sample at the edge of a cell may fall to either side.
    const double factor = name == "occupancy.values" ? 10 : 1;
    EXPECT_LT(Difference(found, expected, name), factor * tolerance) << name;
  }
}

// n_steps on both sides from one state.
inline void ExpectFieldStepsLikeTheCpus(RayStep* cpu, RayStep* device, const TensorFile& state,
                                        uint32_t n_steps, double loss_tolerance,
                                        double state_tolerance,
                                        const std::function<RayBatch(uint32_t)>& batch_of) {
  ASSERT_THAT(cpu->Load(state), IsOk());
  ASSERT_THAT(device->Load(state), IsOk());
  for (uint32_t i = 0; i < n_steps; ++i) {
    const RayBatch batch = batch_of(i);
    const StepResult expected = cpu->RunRays(batch), found = device->RunRays(batch);
    ASSERT_NEAR(found.loss, expected.loss, loss_tolerance * expected.loss) << i;
    ASSERT_NEAR(found.squared_error, expected.squared_error,
                loss_tolerance * expected.squared_error)
        << i;
    EXPECT_EQ(found.n_rays, expected.n_rays);
    EXPECT_GT(found.n_trained, 0);
    ASSERT_NEAR(found.n_trained, expected.n_trained, 1e-3 * expected.n_trained + 2) << i;
    EXPECT_GE(found.n_marched, found.n_trained);
  }
  EXPECT_NEAR(device->OccupiedFraction(), cpu->OccupiedFraction(), 1e-3);
  ExpectSimilarStates(Saved(*device), Saved(*cpu), state_tolerance);
}

// The view of TinyCamera of what a step has learned.
inline ViewPicture TinyView(RenderDevice* device, std::unique_ptr<TrainedModel> model,
                            const SceneGeometry& geometry,
                            RenderPrecision precision = RenderPrecision::kSingle, float time = 0) {
  const auto renderer = device->Load(std::move(model), geometry, precision);
  ViewPicture picture;
  Camera camera = TinyCamera(19);
  camera.time = time;
  EXPECT_TRUE(renderer->Render(camera, {}, {}, &picture));
  return picture;
}
inline int MostDifferent(const ViewPicture& a, const ViewPicture& b) {
  EXPECT_EQ(a.rgba.pixels.size(), b.rgba.pixels.size());
  int most = 0;
  for (size_t i = 0; i < a.rgba.pixels.size(); ++i)
    most = std::max(most, std::abs(a.rgba.pixels[i] - b.rgba.pixels[i]));
  return most;
}
// How much of its range a view uses: that a comparison can fail.
inline int Contrast(const ViewPicture& picture) {
  const auto [low, high] =
      std::minmax_element(picture.rgba.pixels.begin(), picture.rgba.pixels.end());
  return *high - *low;
}

using NewFieldStep = std::function<std::unique_ptr<RayStep>()>;

// Steps of equal bytes, also those that go back or on from a file. moved: a tensor that learns.
inline void ExpectEqualBytesAndToGoBack(const NewFieldStep& new_step, const char* moved,
                                        const std::function<RayBatch(uint32_t)>& batch_of) {
  const auto step = new_step(), other = new_step();
  ExpectSameSteps(step.get(), other.get(), 0, 2, batch_of);
  step->Remember();
  const TensorFile before = Saved(*step);
  step->RunRays(batch_of(2));
  EXPECT_GT(Difference(Saved(*step), before, moved), 0);
  ASSERT_THAT(step->Restore(), IsOk());
  EXPECT_TRUE(SameContents(Saved(*step), before));
  const auto resumed = new_step();
  ASSERT_THAT(resumed->Load(before), IsOk());
  ExpectSameSteps(step.get(), resumed.get(), 2, 5, batch_of);
}

// needed: tensors without which a file is refused. with_nan: makes a state that shows as NaN.
inline void ExpectFilesLikeTheCpus(RayStep* cpu, RayStep* device,
                                   const std::vector<std::string>& needed,
                                   const std::function<TensorFile(const TensorFile&)>& with_nan,
                                   const std::function<RayBatch(uint32_t)>& batch_of) {
  const TensorFile untrained = Saved(*cpu);
  EXPECT_TRUE(SameContents(untrained, Saved(*device))) << "untrained";
  device->RunRays(batch_of(0));
  const TensorFile held = Saved(*device);
  for (const std::string& name : needed) {
    TensorFile broken = untrained;
    ASSERT_EQ(broken.tensors.erase(name), 1u) << name;
    // Of a tile or a proposal, named without a prefix.
    const std::string named = name.substr(std::min(
        {name.find("field."), name.find("adam."), name.find("average."), name.find("occupancy.")}));
    EXPECT_THAT(device->Load(broken), StatusIs(absl::StatusCode::kInvalidArgument, named));
    EXPECT_TRUE(SameContents(Saved(*device), held)) << name;
  }
  ASSERT_THAT(device->Load(with_nan(held)), IsOk());
  EXPECT_TRUE(std::isnan(device->RunRays(batch_of(1)).loss));
  TensorFile model, of_cpu;
  ASSERT_THAT(device->Load(held), IsOk());
  ASSERT_THAT(cpu->Load(held), IsOk());
  device->SaveModel(&model);
  cpu->SaveModel(&of_cpu);
  EXPECT_TRUE(SameContents(model, of_cpu));
  ASSERT_THAT(device->Initialize(model), IsOk());
  ASSERT_THAT(cpu->Initialize(model), IsOk());
  EXPECT_TRUE(SameContents(Saved(*cpu), Saved(*device))) << "initialized";
}

}  // namespace nerf
