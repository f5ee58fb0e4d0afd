// Joint training of tiles. That it learns, and to the same bytes on any number of threads, stopped
// or not, is in fused_methods_test.cc.
#include "engine/methods/ngp_tiles/joint_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/field/marched_model.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp_tiles/describe/tile_tensors.h"
#include "engine/methods/ngp_tiles/tile_files.h"
#include "engine/methods/registry.h"
#include "engine/train/method.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"
#include "tests/testing/training_loss.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

// A config whose loss is smooth: nothing is cut off, rounded or added.
TrainConfig JointConfig(int n_tiles) {
  TrainConfig config = TinyConfig();
  config.method = "ngp-tiles";
  config.loss = Loss::kMse;
  config.min_transmittance = 0;
  Ngp(config).half_table = 0;
  Ngp(config).mlp_l2 = 0;
  Ngp(config).tiles = n_tiles;
  Ngp(config).tile_training = TileTraining::kJoint;
  return config;
}

// Tables of large random values, those of tile k from stream first + k * stride.
TensorFile LivelyTiles(const TrainingStep& step, int n_tiles, int stride) {
  TensorFile file = Saved(step);
  for (int tile = 0; tile < n_tiles; ++tile) {
    Tensor& table = file.tensors.at(TilePrefix(tile) + "field.hash_table");
    const std::vector<float> values =
        RandomFloats(table.n_elements(), -1, 1, static_cast<uint32_t>(77 + tile * stride));
    table = TensorFromFloats(values.data(), table.shape, DType::kF32);
  }
  return file;
}

// A parameter's gradient: from zero, first moments become (1 - beta1) of that of the scaled loss.
std::vector<double> GradientOf(const TensorFile& after, const TrainConfig& config,
                               const std::string& prefix, const std::string& name) {
  std::vector<double> gradient;
  for (const float moment : ToFloats(after.tensors.at(prefix + "adam.first." + name)))
    gradient.push_back(moment / ((1 - config.beta1) * config.loss_scale));
  return gradient;
}

double Norm(const std::vector<double>& values) {
  double squared = 0;
  for (const double value : values) squared += value * value;
  return std::sqrt(squared);
}

// The loss of a state's tiles in double precision.
StepResult ReferenceLoss(const TrainConfig& config, const TensorFile& state,
                         const RayBatch& batch) {
  const SceneGeometry geometry = TinyGeometry();
  const TileCuts cuts = *LoadCuts(state, Ngp(config).tiles);
  const NgpNetwork unbound = NgpNetworkOf(config, geometry);
  std::vector<std::unique_ptr<NgpParameters>> tiles;
  std::vector<NgpNetwork> networks;
  for (int tile = 0; tile < cuts.n_tiles(); ++tile) {
    tiles.push_back(std::make_unique<NgpParameters>(config, unbound.shape));
    EXPECT_THAT(tiles.back()->Load(TileOf(state, tile)), IsOk());
    networks.push_back(WithParameters(unbound, *tiles.back()));
  }
  return reference::TrainingLossOf(
      config,
      [&](Vec3 position) -> const NgpNetwork& {
        int found = 0;
        for (int tile = 0; tile < cuts.n_tiles(); ++tile) {
          if (cuts.boxes()[tile].Contains(position)) found = tile;
        }
        return networks[found];
      },
      FullOccupancyGrid(geometry.box, geometry.n_levels, config.grid_resolution),
      {geometry.step, geometry.cone}, batch);
}

TEST(JointTileStepTest, LossAndGradientsAgreeWithTheReferenceInDoublePrecision) {
  const TrainConfig config = JointConfig(4);
  ThreadPool pool(2);
  const auto step = NewJointTileStep(config, TinyGeometry(), Scene(), &pool);
  const TensorFile state = LivelyTiles(*step, 4, 1);
  ASSERT_THAT(step->Load(state), IsOk());
  const RayBatch batch = TinyBatch(24, 0, /*learning_rate=*/0);
  const StepResult result = step->RunRays(batch);
  const StepResult expected = ReferenceLoss(config, state, batch);
  EXPECT_EQ(result.n_marched, expected.n_marched);
  EXPECT_EQ(result.n_trained, expected.n_marched);
  EXPECT_NEAR(result.loss, expected.loss, 3e-4 * expected.loss);
  EXPECT_NEAR(result.squared_error, expected.squared_error, 3e-4 * expected.squared_error);

  const TensorFile after = Saved(*step);
  for (int tile = 0; tile < 4; ++tile) {
    for (const std::string& name : FieldTensorNames()) {
      const std::vector<double> gradient = GradientOf(after, config, TilePrefix(tile), name);
      const double norm = Norm(gradient);
      ASSERT_GT(norm, 1e-5) << tile << name;
      const double distance = 3e-5 / norm;
      const auto loss_at = [&](double sign) {
        TensorFile moved = state;
        Tensor& tensor = moved.tensors.at(TilePrefix(tile) + name);
        std::vector<float> values = ToFloats(tensor);
        for (size_t i = 0; i < values.size(); ++i)
          values[i] += static_cast<float>(sign * distance * gradient[i] / norm);
        tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
        return ReferenceLoss(config, moved, batch).loss;
      };
      const double slope = (loss_at(1) - loss_at(-1)) / (2 * distance);
      EXPECT_NEAR(slope, norm, 0.01 * norm) << tile << name;
    }
  }
}

// Where all tiles have the same parameters they are one field, and its gradient is the sum of
// theirs: a mean, or a loss of the tile's part of the ray, would be another one.
TEST(JointTileStepTest, TilesOfEqualParametersHaveTheGradientOfOneFieldInSum) {
  const TrainConfig config = JointConfig(2);
  TrainConfig of_one = config;
  of_one.method = "ngp";
  ThreadPool pool(2);
  const auto joint = NewJointTileStep(config, TinyGeometry(), Scene(), &pool);
  const auto one = NewNgpCpuStep(of_one, TinyGeometry(), &pool);
  ASSERT_THAT(joint->Load(LivelyTiles(*joint, 2, 0)), IsOk());
  ASSERT_THAT(one->Load(LivelyState(*one)), IsOk());
  const RayBatch batch = TinyBatch(64, 0, /*learning_rate=*/0);
  const StepResult together = joint->RunRays(batch), alone = one->RunRays(batch);
  EXPECT_EQ(together.n_trained, alone.n_trained);
  EXPECT_NEAR(together.loss, alone.loss, 1e-5 * alone.loss);
  const TensorFile of_joint = Saved(*joint), of_field = Saved(*one);
  for (const std::string& name : FieldTensorNames()) {
    const std::vector<double> expected = GradientOf(of_field, config, "", name);
    std::vector<double> difference = expected;
    for (int tile = 0; tile < 2; ++tile) {
      const std::vector<double> part = GradientOf(of_joint, config, TilePrefix(tile), name);
      EXPECT_GT(Norm(part), 0.1 * Norm(expected)) << tile << name;
      for (size_t i = 0; i < part.size(); ++i) difference[i] -= part[i];
    }
    EXPECT_LT(Norm(difference), 1e-3 * Norm(expected)) << name;
  }
}

TEST(JointTileStepTest, DamagedFilesAreRefusedAndChangeNothing) {
  const TrainConfig config = JointConfig(2);
  ThreadPool pool(1);
  const auto step = NewJointTileStep(config, TinyGeometry(), Scene(), &pool);
  const TensorFile good = Saved(*step);
  for (const char* name :
       {"tiles.cuts", "tile1.field.hash_table", "occupancy.bits", "occupancy.values"}) {
    TensorFile file = good;
    file.tensors.erase(name);
    const char* const named = std::string_view(name).starts_with("tile1.") ? name + 6 : name;
    EXPECT_THAT(step->Load(file), StatusIs(StatusCode::kInvalidArgument, named));
    EXPECT_TRUE(SameContents(Saved(*step), good)) << name;
  }
  TensorFile model;
  step->SaveModel(&model);
  for (const char* name : {"tiles.cuts", "tile1.field.hash_table", "occupancy.bits"}) {
    TensorFile file = model;
    file.tensors.erase(name);
    const char* const named = std::string_view(name).starts_with("tile1.") ? name + 6 : name;
    EXPECT_THAT(MethodOf(config).LoadModel(file, config, TinyGeometry()).status(),
                StatusIs(StatusCode::kInvalidArgument, named));
  }
}

// A tile never saw what lies beyond its cuts, so views ask it for nothing there.
TEST(JointTileStepTest, ModelsBlendNothing) {
  TrainConfig config = JointConfig(2);
  ASSERT_EQ(Ngp(config).tile_blend, 1);
  ThreadPool pool(1);
  const auto step = NewJointTileStep(config, TinyGeometry(), Scene(), &pool);
  ASSERT_THAT(step->Load(LivelyTiles(*step, 2, 1)), IsOk());
  TensorFile file;
  step->SaveModel(&file);
  const std::vector<Vec3> points = RandomPoints(400, -0.1f, 0.1f, 9);
  const auto densities = [&] {
    const auto model = MethodOf(config).LoadModel(file, config, TinyGeometry());
    EXPECT_THAT(model, IsOk());
    const RadianceField& field = dynamic_cast<const MarchedModel&>(**model).field();
    std::vector<float> sigmas(points.size());
    field.Density(static_cast<int>(points.size()), points.data(), sigmas.data(),
                  field.NewWorkspace(static_cast<int>(points.size())).get());
    return sigmas;
  };
  const std::vector<float> blended = densities();
  Ngp(config).tile_blend = 0;
  EXPECT_EQ(blended, densities());
}

TEST(JointTileStepTest, WhatItDoesNotHonorIsRefusedByName) {
  TrainConfig config = *DefaultConfig("ngp-tiles");
  EXPECT_THAT(SetConfigField("tile_training", "both", &config),
              StatusIs(StatusCode::kInvalidArgument, "joint"));
  ASSERT_THAT(SetConfigField("near_gradients", "0.1", &config), IsOk());
  const MethodDescription& method = MethodDescriptionOf(config);
  EXPECT_THAT(method.CheckScene({}, config), IsOk());
  ASSERT_THAT(SetConfigField("tile_training", "joint", &config), IsOk());
  EXPECT_THAT(method.CheckScene({}, config),
              StatusIs(StatusCode::kInvalidArgument, "near_gradients"));
}

}  // namespace
}  // namespace nerf
