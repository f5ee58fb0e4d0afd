#include "engine/field/parameters/start_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

Tensor Filled(float value, std::vector<uint32_t> shape) {
  size_t n = 1;
  for (const uint32_t side : shape) n *= side;
  const std::vector<float> values(n, value);
  return TensorFromFloats(values.data(), std::move(shape), DType::kF32);
}

TensorFile StartScopeFile(float value) {
  TensorFile file;
  file.tensors["field.hash_table"] = Filled(value, {4});
  file.tensors["field.density_mlp.0"] = Filled(value, {2, 2});
  file.tensors["proposal.field.hash_table"] = Filled(value, {2});
  file.tensors["occupancy.bits"] = Filled(value, {3});
  file.tensors["adam.first.field.hash_table"] = Filled(value, {4});
  return file;
}

const std::vector<TensorShape> kWanted = {{"field.hash_table", "F16", {4}},
                                          {"field.density_mlp.0", "F16", {2, 2}},
                                          {"proposal.field.hash_table", "F16", {2}}};

float ValueOf(const TensorFile& file, const std::string& name) {
  return ToFloats(file.tensors.at(name))[0];
}

TEST(StartScopeTest, NamesAreReadBack) {
  for (const char* name : {"all", "field", "mlp", "occupancy"})
    EXPECT_EQ(StartScopeName(*ParseStartScope(name)), name);
  EXPECT_THAT(ParseStartScope("table"),
              StatusIs(StatusCode::kInvalidArgument, "all, field, mlp, occupancy"));
}

TEST(StartScopeTest, TakesWhatIsInTheScopeAndNothingElse) {
  const std::string table = "field.hash_table", layer = "field.density_mlp.0",
                    proposal = "proposal.field.hash_table", bits = "occupancy.bits",
                    moment = "adam.first.field.hash_table";
  const struct {
    StartScope scope;
    std::vector<std::string> taken;
  } cases[] = {{StartScope::kField, {table, layer, proposal}},
               {StartScope::kMlp, {layer}},
               {StartScope::kOccupancy, {bits}}};
  for (const auto& c : cases) {
    const TensorFile taken = TakeScope(c.scope, StartScopeFile(1), StartScopeFile(0));
    for (const std::string& name : {table, layer, proposal, bits, moment}) {
      const bool in_scope = std::find(c.taken.begin(), c.taken.end(), name) != c.taken.end();
      EXPECT_EQ(ValueOf(taken, name), in_scope ? 1 : 0) << StartScopeName(c.scope) << " " << name;
    }
  }
  EXPECT_EQ(ValueOf(TakeScope(StartScope::kAll, StartScopeFile(1), StartScopeFile(0)), moment), 1);
}

TEST(StartScopeTest, WhatIsNotTakenNeedNotFit) {
  TensorFile start = StartScopeFile(1);
  start.tensors["field.hash_table"] = Filled(1, {8});
  EXPECT_THAT(CheckScopeFits(StartScope::kMlp, kWanted, start, StartScopeFile(0)), IsOk());
  EXPECT_THAT(CheckScopeFits(StartScope::kOccupancy, kWanted, start, StartScopeFile(0)), IsOk());
  EXPECT_THAT(CheckScopeFits(StartScope::kField, kWanted, start, StartScopeFile(0)),
              StatusIs(StatusCode::kInvalidArgument, "field.hash_table is [8], the config wants"));
}

TEST(StartScopeTest, WhatIsMissingIsNamed) {
  TensorFile start = StartScopeFile(1);
  start.tensors.erase("occupancy.bits");
  EXPECT_THAT(CheckScopeFits(StartScope::kOccupancy, kWanted, start, StartScopeFile(0)),
              StatusIs(StatusCode::kInvalidArgument, "occupancy.bits is missing"));
  start.tensors.erase("field.density_mlp.0");
  EXPECT_THAT(CheckScopeFits(StartScope::kMlp, kWanted, start, StartScopeFile(0)),
              StatusIs(StatusCode::kInvalidArgument, "field.density_mlp.0 is missing"));
}

TEST(StartScopeTest, AMethodWithoutMlpOrGridHasNothingToTake) {
  TensorFile fresh;
  fresh.tensors["field.voxels"] = Filled(0, {4});
  const std::vector<TensorShape> wanted = {{"field.bricks", "F16", {4}}};
  for (const StartScope scope : {StartScope::kMlp, StartScope::kOccupancy}) {
    EXPECT_THAT(CheckScopeFits(scope, wanted, StartScopeFile(1), fresh),
                StatusIs(StatusCode::kInvalidArgument, "nothing in the scope"));
  }
}

}  // namespace
}  // namespace nerf
