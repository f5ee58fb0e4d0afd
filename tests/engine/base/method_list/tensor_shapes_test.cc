#include <gtest/gtest.h>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

TEST(TensorShapesTest, TableFollowsTheConfigAndTheMlpsDoNot) {
  TrainConfig small, large;
  Ngp(small).log2_hashmap_size = 12;
  Ngp(large).log2_hashmap_size = 19;
  Ngp(small).n_features_per_level = 4;
  Ngp(large).n_features_per_level = 2;
  EXPECT_EQ(FieldTensorShapes(small)[0].shape, (std::vector<uint32_t>{8, 4096, 4}));
  EXPECT_EQ(FieldTensorShapes(large)[0].shape, (std::vector<uint32_t>{16, 524288, 2}));
  ASSERT_EQ(FieldTensorShapes(small).size(), FieldTensorShapes(large).size());
  for (size_t i = 1; i < FieldTensorShapes(small).size(); ++i) {
    EXPECT_EQ(FieldTensorShapes(small)[i], FieldTensorShapes(large)[i]);
  }
}

TEST(CheckInitFitsTest, WholeAndHalfPrecisionFitAndMoreTensorsDoNotMatter) {
  std::vector<TensorShape> held = FieldTensorShapes({});
  for (TensorShape& tensor : held) tensor.dtype = "F32";
  held.push_back({"adam.first.field.hash_table", "F32", {1}});
  EXPECT_THAT(CheckInitFits({}, FieldTensorShapes({})), IsOk());
  EXPECT_THAT(CheckInitFits({}, held), IsOk());
}

TEST(CheckInitFitsTest, EveryMisfitNamesItsTensor) {
  for (size_t i = 0; i < FieldTensorShapes({}).size(); ++i) {
    std::vector<TensorShape> held = FieldTensorShapes({});
    const std::string name = held[i].name;
    held[i].shape.back() += 1;
    EXPECT_THAT(CheckInitFits({}, held), StatusIs(StatusCode::kInvalidArgument, name));
    held = FieldTensorShapes({});
    held[i].shape.push_back(1);
    EXPECT_THAT(CheckInitFits({}, held), StatusIs(StatusCode::kInvalidArgument, name));
    held = FieldTensorShapes({});
    held[i].dtype = "BF16";
    EXPECT_THAT(CheckInitFits({}, held), StatusIs(StatusCode::kInvalidArgument, "BF16"));
    held = FieldTensorShapes({});
    held.erase(held.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_THAT(CheckInitFits({}, held),
                StatusIs(StatusCode::kInvalidArgument, name + " is missing"));
  }
}

}  // namespace
}  // namespace nerf
