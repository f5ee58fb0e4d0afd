// LibTorch's profiler by way of a step, as --torch-trace uses it.
#include "engine/methods/autograd/op_profile.h"

#include <c10/util/Exception.h>

#include <map>
#include <memory>
#include <string>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/autograd/mlp_autograd_step.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

std::unique_ptr<RayStep> NewStep(ThreadPool* pool) {
  TrainConfig config = *DefaultConfig("mlp-autograd");
  Mlp(config).width = 32;
  Mlp(config).depth = 2;
  config.grid_resolution = 32;
  return NewMlpAutogradStep(config, TinyGeometry(), pool);
}

RayBatch Batch(uint32_t step) {
  RayBatch batch = TinyBatch(8, step, 1e-3f);
  batch.distortion = 0;
  return batch;
}

TEST(OpProfileTest, HasTheOperationsOfTheStepsAskedForAndChangesNoByte) {
  ThreadPool pool(1);
  const auto plain = NewStep(&pool), profiled = NewStep(&pool);
  profiled->StartProfile(2);
  for (uint32_t i = 0; i < 3; ++i) {
    plain->RunRays(Batch(i));
    profiled->RunRays(Batch(i));
  }
  EXPECT_TRUE(SameContents(Saved(*plain), Saved(*profiled)));
  const Json trace = Json::parse(profiled->Profile());
  std::map<std::string, int> counts;
  double last = 0;
  bool has_shapes = false;
  for (const Json& event : trace["traceEvents"]) {
    ++counts[event["name"]];
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["ts"], last);
    EXPECT_GE(event["dur"], 0.0);
    last = event["ts"];
    if (event["name"] == "aten::addmm")
      has_shapes |=
          event["args"]["shapes"].get<std::string>().find("[64, 32]") != std::string::npos;
  }
  EXPECT_EQ(counts["march"], 2) << "of the two steps alone";
  EXPECT_EQ(counts["backward"], 2);
  EXPECT_GT(counts["aten::addmm"], 2 * 6);
  EXPECT_EQ(counts["AddmmBackward0"], 2 * 6) << "two layers of the trunk and four others";
  EXPECT_TRUE(has_shapes);
  EXPECT_TRUE(Json::parse(plain->Profile())["traceEvents"].empty());
}

TEST(OpProfileTest, AStepThatFailsLeavesNoProfilerBehind) {
  ThreadPool pool(1);
  for (int i = 0; i < 2; ++i) {  // LibTorch refuses a second profiler
    const auto step = NewStep(&pool);
    step->StartProfile(2);
    RayBatch torn = Batch(0);
    torn.targets.resize(3);
    EXPECT_THROW(step->RunRays(torn), c10::Error);
  }
  const auto step = NewStep(&pool);
  step->StartProfile(1);
  step->RunRays(Batch(0));
  EXPECT_FALSE(Json::parse(step->Profile())["traceEvents"].empty());
}

}  // namespace
}  // namespace nerf
