#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/field/kernels/simd_path.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "gmock/gmock.h"
#include "tests/testing/plain_bf16_unit.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

using testing::HasSubstr;

kernels::HashGridShape ParametersShape() { return NgpHashGridShape({.log2_hashmap_size = 12}); }

NgpParameters RandomParameters(uint32_t seed = 1) {
  TrainConfig config = TinyConfig();
  config.seed = seed;
  NgpParameters parameters(config, ParametersShape());
  parameters.InitializeRandomly();
  return parameters;
}

TensorFile Saved(const NgpParameters& parameters) {
  TensorFile file;
  parameters.Save(&file);
  return file;
}

TEST(NgpParametersTest, TheTableStartsSmallAndTheWeightsWithinGlorotsReach) {
  const NgpParameters parameters = RandomParameters();
  const size_t n = size_t{32} << 12;
  const auto [low, high] = std::minmax_element(parameters.table(), parameters.table() + n);
  EXPECT_GE(*low, -1e-4f);
  EXPECT_LT(*low, -0.9e-4f);
  EXPECT_LE(*high, 1e-4f);
  EXPECT_GT(*high, 0.9e-4f);
  for (const NgpLayer& layer : kNgpLayers) {
    const float reach = std::sqrt(6.0f / (layer.n_in + layer.n_out_used));
    float largest = 0;
    for (int in = 0; in < layer.n_in; ++in) {
      for (int out = 0; out < layer.n_out; ++out) {
        const float weight = parameters.weights()[layer.offset + in * layer.n_out + out];
        largest = std::max(largest, std::abs(weight));
        EXPECT_TRUE(out < layer.n_out_used || weight == 0) << "padding";
      }
    }
    EXPECT_LE(largest, reach) << layer.tensor_name;
    EXPECT_GT(largest, 0.9f * reach) << layer.tensor_name;
  }
}

TEST(NgpParametersTest, OneSeedIsOneStartAndAnotherSeedAnother) {
  EXPECT_TRUE(SameContents(Saved(RandomParameters(5)), Saved(RandomParameters(5))));
  EXPECT_FALSE(SameContents(Saved(RandomParameters(5)), Saved(RandomParameters(6))));
}

TEST(NgpParametersTest, TransposedWeightsFollowEveryUpdate) {
  NgpParameters parameters = RandomParameters();
  for (int i = 0; i < kNgpWeights; ++i) parameters.weight_gradients(0)[i] = 0.1f * (i % 7);
  parameters.UpdateWeights(0.01f, 1);
  for (const NgpLayer& layer : kNgpLayers) {
    for (int in = 0; in < layer.n_in; ++in) {
      for (int out = 0; out < layer.n_out; ++out) {
        ASSERT_EQ(parameters.transposed_weights()[layer.offset + out * layer.n_in + in],
                  parameters.weights()[layer.offset + in * layer.n_out + out]);
      }
    }
  }
}

TEST(NgpParametersTest, PairsOfTheWeightsFollowEveryChangeWhereLayersTakeThem) {
  EXPECT_EQ(RandomParameters().weight_pairs(), nullptr) << "layers are in fp32";
  AddPlainBf16Unit();
  ASSERT_TRUE(kernels::cpu::ForceSimdPath("BF16_PLAIN"));
  NgpParameters parameters = RandomParameters(1);
  const auto expect_fresh = [&parameters](const char* after) {
    Buffer<uint32_t> pairs(kNgpWeightPairs), transposed(kNgpWeightPairs);
    PackNgpWeightPairs(parameters.weights(), false, pairs.data());
    PackNgpWeightPairs(parameters.transposed_weights(), true, transposed.data());
    EXPECT_EQ(0, std::memcmp(parameters.weight_pairs(), pairs.data(), pairs.byte_size())) << after;
    EXPECT_EQ(0,
              std::memcmp(parameters.transposed_pairs(), transposed.data(), transposed.byte_size()))
        << after;
  };
  expect_fresh("the start");
  for (int i = 0; i < kNgpWeights; ++i) parameters.weight_gradients(0)[i] = 0.1f * (i % 7);
  parameters.UpdateWeights(0.01f, 1);
  expect_fresh("an update");
  ASSERT_THAT(parameters.Load(Saved(RandomParameters(2))), IsOk());
  expect_fresh("Load");
  TensorFile model;
  RandomParameters(3).SaveModel(&model);
  ASSERT_THAT(parameters.Initialize(model), IsOk());
  expect_fresh("Initialize");
  ASSERT_TRUE(kernels::cpu::ForceSimdPath("FP32"));
}

TEST(NgpParametersTest, TheTableInHalfPrecisionFollowsEveryChange) {
  NgpParameters parameters = RandomParameters();
  const auto expect_halves = [&] {
    for (size_t i = 0; i < (size_t{32} << 12); ++i)
      ASSERT_EQ(parameters.half_table()[i], HalfFromFloat(parameters.table()[i])) << i;
  };
  expect_halves();
  LevelGradients gradients(ParametersShape());
  for (size_t i = 0; i < gradients.values.size(); i += 3) {
    gradients.values[i] = 0.1f * static_cast<float>(i % 7);
    gradients.touched[i / kernels::kLineFloats] = 1;
  }
  const float before = parameters.table()[ParametersShape().level_size() * 2 + 3];
  parameters.UpdateTableLevel(2, 0.01f, 1, &gradients);
  EXPECT_NE(parameters.table()[ParametersShape().level_size() * 2 + 3], before);
  expect_halves();
  ASSERT_THAT(parameters.Load(Saved(RandomParameters(2))), IsOk());
  expect_halves();
  ASSERT_THAT(parameters.Initialize(Saved(RandomParameters(3))), IsOk());
  expect_halves();
}

TEST(NgpParametersTest, ThereIsNoTableInHalfPrecisionWhereTheConfigWantsNone) {
  TrainConfig config = TinyConfig();
  Ngp(config).half_table = 0;
  NgpParameters parameters(config, ParametersShape());
  parameters.InitializeRandomly();
  EXPECT_EQ(parameters.half_table(), nullptr);
  LevelGradients gradients(ParametersShape());
  gradients.values[3] = 1;
  gradients.touched[0] = 1;
  const float before = parameters.table()[3];
  parameters.UpdateTableLevel(0, 0.01f, 1, &gradients);
  EXPECT_NE(parameters.table()[3], before);
  EXPECT_EQ(parameters.half_table(), nullptr);
}

// Moments of both forms come back from a file, from one of the other form as well.
TEST(NgpParametersTest, MomentsOfTheTableReadBackInEitherForm) {
  TrainConfig in_floats = TinyConfig();
  Ngp(in_floats).half_table = 0;
  const auto trained = [](const TrainConfig& config) {
    NgpParameters parameters(config, ParametersShape());
    parameters.InitializeRandomly();
    LevelGradients gradients(ParametersShape());
    for (size_t i = 0; i < gradients.values.size(); i += 3) {
      gradients.values[i] = 0.1f * static_cast<float>(i % 7);
      gradients.touched[i / kernels::kLineFloats] = 1;
    }
    parameters.UpdateTableLevel(2, 0.01f, 1, &gradients);
    return Saved(parameters);
  };
  const auto read_back = [](const TrainConfig& config, const TensorFile& file) {
    NgpParameters parameters(config, ParametersShape());
    EXPECT_THAT(parameters.Load(file), IsOk());
    return Saved(parameters);
  };
  const TensorFile floats = trained(in_floats), pairs = trained(TinyConfig());
  EXPECT_FALSE(SameContents(floats, pairs));
  EXPECT_TRUE(SameContents(read_back(in_floats, floats), floats));
  EXPECT_TRUE(SameContents(read_back(TinyConfig(), pairs), pairs));
  EXPECT_TRUE(SameContents(read_back(in_floats, pairs), pairs));
  EXPECT_TRUE(SameContents(read_back(TinyConfig(), floats), pairs));
  // With a decay that bf16 would not follow there are no pairs.
  TrainConfig slow = TinyConfig(), slow_in_floats = in_floats;
  slow.beta2 = slow_in_floats.beta2 = 0.999f;
  EXPECT_TRUE(SameContents(trained(slow), trained(slow_in_floats)));
}

TEST(NgpParametersTest, WeightUpdateSumsTheLanesAndClearsThem) {
  NgpParameters parameters = RandomParameters();
  float expected = 0;
  for (int lane = 0; lane < kGradientLanes; ++lane) {
    parameters.weight_gradients(lane)[5] = 0.25f * (lane + 1);
    expected += 0.25f * (lane + 1);
  }
  SumLanes({0, kGradientLanes}, kGradientLanes, kNgpWeights, parameters.weight_gradients(0));
  parameters.UpdateWeights(0, 1);
  // First moments are 0.1 of the gradient plus the tiny penalty. Element 5 is (in 0, out 5).
  const TensorFile file = Saved(parameters);
  EXPECT_NEAR(ToFloats(file.tensors.at("adam.first.field.density_mlp.0"))[5 * 32], 0.1f * expected,
              1e-4f);
  for (int lane = 0; lane < kGradientLanes; ++lane) {
    EXPECT_TRUE(std::all_of(parameters.weight_gradients(lane),
                            parameters.weight_gradients(lane) + kNgpWeights,
                            [](float g) { return g == 0; }));
  }
}

TEST(NgpParametersTest, AveragesFollowWithTheDecayOfTheStepsBetween) {
  ThreadPool pool(2);
  NgpParameters parameters = RandomParameters();
  const float before = parameters.weights()[0];
  parameters.weight_gradients(0)[0] = 1;
  parameters.UpdateWeights(0.5f, 1);
  const float after = parameters.weights()[0];
  parameters.UpdateAverages(16, &pool);
  const double keep = std::pow(TinyConfig().ema_decay, 16);
  EXPECT_NEAR(ToFloats(Saved(parameters).tensors.at("average.field.density_mlp.0"))[0],
              keep * before + (1 - keep) * after, 1e-6);
}

TEST(NgpParametersTest, LoadRestoresWhatSaveWrote) {
  const NgpParameters saved = RandomParameters(1);
  NgpParameters loaded = RandomParameters(2);
  ASSERT_THAT(loaded.Load(Saved(saved)), IsOk());
  EXPECT_TRUE(SameContents(Saved(loaded), Saved(saved)));
  EXPECT_EQ(0, std::memcmp(loaded.transposed_weights(), saved.transposed_weights(),
                           kNgpWeights * sizeof(float)));
}

TEST(NgpParametersTest, LoadNamesTheTensorThatIsWrongAndChangesNothing) {
  const TensorFile whole = Saved(RandomParameters(1));
  NgpParameters parameters = RandomParameters(2);
  const TensorFile before = Saved(parameters);
  for (const auto& [name, tensor] : whole.tensors) {
    TensorFile broken = whole;
    broken.tensors.erase(name);
    EXPECT_THAT(parameters.Load(broken),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
    broken.tensors[name] = tensor;
    broken.tensors[name].shape = {static_cast<uint32_t>(tensor.n_elements())};
    EXPECT_THAT(parameters.Load(broken),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
    broken.tensors[name] = tensor;
    broken.tensors[name].dtype = DType::kI32;
    EXPECT_THAT(parameters.Load(broken),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  }
  EXPECT_TRUE(SameContents(Saved(parameters), before));
}

TEST(NgpParametersTest, ModelsHoldTheAveragesInHalfPrecision) {
  const NgpParameters parameters = RandomParameters();
  TensorFile model;
  parameters.SaveModel(&model);
  EXPECT_EQ(model.tensors.size(), FieldTensorNames().size());
  for (const std::string& name : FieldTensorNames()) {
    ASSERT_TRUE(model.tensors.contains(name)) << name;
    EXPECT_EQ(model.tensors[name].dtype, DType::kF16);
  }
  const std::vector<float> stored = ToFloats(model.tensors["field.hash_table"]);
  const Buffer<Half> evaluation = parameters.EvaluationTable();
  EXPECT_TRUE(std::equal(stored.begin(), stored.end(), evaluation.begin(), evaluation.end(),
                         [](float held, Half half) { return held == FloatFromHalf(half); }));
}

TEST(NgpParametersTest, ModelAndCheckpointReadBackAsTheSameEvaluationWeights) {
  const NgpParameters parameters = RandomParameters();
  TensorFile model;
  parameters.SaveModel(&model);
  const auto from_model = ReadNgpEvaluationParameters(model, ParametersShape());
  const auto from_checkpoint = ReadNgpEvaluationParameters(Saved(parameters), ParametersShape());
  ASSERT_THAT(from_model.status(), IsOk());
  ASSERT_THAT(from_checkpoint.status(), IsOk());
  EXPECT_TRUE(std::equal(from_model->table.begin(), from_model->table.end(),
                         from_checkpoint->table.begin(), from_checkpoint->table.end()));
  EXPECT_TRUE(std::equal(from_model->weights.begin(), from_model->weights.end(),
                         from_checkpoint->weights.begin(), from_checkpoint->weights.end()));
}

TEST(NgpParametersTest, InitializeTakesTheParametersAndRestartsTheMoments) {
  NgpParameters parameters = RandomParameters(1);
  for (int i = 0; i < kNgpWeights; ++i) parameters.weight_gradients(0)[i] = 1;
  parameters.UpdateWeights(0.01f, 1);
  TensorFile model;
  RandomParameters(2).SaveModel(&model);
  ASSERT_THAT(parameters.Initialize(model), IsOk());
  const TensorFile file = Saved(parameters);
  for (const std::string& name : FieldTensorNames()) {
    const std::vector<float> wanted = ToFloats(model.tensors.at(name));
    EXPECT_EQ(ToFloats(file.tensors.at(name)), wanted);
    EXPECT_EQ(ToFloats(file.tensors.at("average." + name)), wanted);
    for (const std::string moment : {"adam.first.", "adam.second."}) {
      for (float value : ToFloats(file.tensors.at(moment + name))) ASSERT_EQ(value, 0);
    }
  }
}

}  // namespace
}  // namespace nerf
