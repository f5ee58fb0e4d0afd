// What a viewer file holds; tests/web/viewer_file_test.mjs looks at its pictures.
#include "engine/export/files/viewer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/escaping.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/field/marched_model.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/field.h"
#include "engine/methods/ngp/state.h"
#include "fmt/format.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

// The content of the element with this id.
std::string ElementOf(const std::string& html, std::string_view id) {
  const std::string mark = fmt::format("id=\"{}\">", id);
  const size_t begin = html.find(mark) + mark.size();
  return html.substr(begin, html.find("</script>", begin) - begin);
}

class ViewerFileTest : public testing::Test {
 protected:
  explicit ViewerFileTest(int n_boxes = 2) {
    state_.config = TinyConfig();
    state_.geometry = TinyGeometry(n_boxes);
    state_.evaluation_background = Background::kBlack;
    scene_.photographs.resize(3);
    scene_.photographs[1].right = 0.75f;
    scene_.path.resize(2);
    scene_.path[1].camera_to_world.m[2][3] = 1e-9f;
    scene_.path_is_closed = true;
    model_ = NgpState(state_.config, state_.geometry).Snapshot();
    html_ = ViewerFile(state_, *model_, scene_);
    json_ = nlohmann::json::parse(ElementOf(html_, "scene"), nullptr, false);
    EXPECT_TRUE(absl::Base64Unescape(ElementOf(html_, "model"), &bytes_));
  }

  TrainState state_;
  ViewerScene scene_;
  std::unique_ptr<TrainedModel> model_;
  std::string html_, bytes_;
  nlohmann::json json_;
};

TEST_F(ViewerFileTest, SizeOfTheModelFollowsFromTheConfig) {
  const auto& grid = dynamic_cast<const MarchedModel&>(*model_).grid();
  const double field = MethodDescriptionOf(state_.config).ViewerBytes(state_.config, grid.n_levels);
  EXPECT_EQ(bytes_.size(), field + 9.0 * grid.occupied_blocks.size());
  EXPECT_EQ(ViewerModelBytes(*model_), ElementOf(html_, "model").size());
  TrainConfig other = state_.config;
  Ngp(other).n_features_per_level = 2;
  EXPECT_EQ(MethodDescriptionOf(other).ViewerBytes(other, 1), 0) << "as CheckViewable";
}

TEST_F(ViewerFileTest, SceneIsJson) {
  ASSERT_TRUE(json_.is_object());
  EXPECT_EQ(json_["bytes"], bytes_.size());
  EXPECT_EQ(json_["box"]["count"], 2);
  EXPECT_EQ(json_["box"]["halfSide"], 1);
  EXPECT_EQ(json_["box"]["resolution"], 32);
  EXPECT_EQ(json_["march"]["step"].get<float>(), state_.geometry.step);
  EXPECT_EQ(json_["march"]["minTransmittance"].get<float>(), 0.03f);
  EXPECT_EQ(json_["background"], nlohmann::json({0, 0, 0}));
  EXPECT_EQ(json_["cameras"].size(), 3u);
  EXPECT_EQ(json_["cameras"][1]["slopes"], nlohmann::json({0.625, 0.5}));
  EXPECT_EQ(json_["path"]["closed"], true);
  EXPECT_EQ(json_["path"]["poses"][1][11].get<float>(), 1e-9f);
}

TEST_F(ViewerFileTest, ModelIsTheUsedEntriesTheWeightsAndTheGrid) {
  const auto& marched = dynamic_cast<const MarchedModel&>(*model_);
  const NgpNetwork& network = dynamic_cast<const NgpField&>(marched.field()).network();
  ASSERT_EQ(json_["table"]["resolutions"][0], 16);
  const std::vector<uint32_t> entries = json_["table"]["entries"];
  ASSERT_EQ(entries.size(), 8u);
  EXPECT_EQ(entries[0], 4096u);  // 17^3 corners do not fit
  size_t at = 0;
  for (size_t level = 0; level < entries.size(); ++level) {
    EXPECT_EQ(std::memcmp(bytes_.data() + at, network.half_table + level * 4 * 4096, 8 * 4096), 0);
    at += size_t{8} * entries[level];
  }
  Half weight;
  std::memcpy(&weight, bytes_.data() + at + 2 * 77, sizeof(weight));
  EXPECT_EQ(FloatFromHalf(weight), network.weights[77]);
  at += size_t{2} * kNgpWeights;
  const auto& blocks = marched.grid().occupied_blocks;
  ASSERT_EQ(bytes_.size(), at + 9 * blocks.size());
  EXPECT_EQ(std::memcmp(bytes_.data() + at, blocks.data(), 8 * blocks.size()), 0);
  EXPECT_EQ(bytes_[at + 8 * blocks.size()], static_cast<char>(marched.empty_distances()[0]));
}

TEST_F(ViewerFileTest, BakedModelIsPackedBesideTheModelOrAlone) {
  EXPECT_EQ(ElementOf(html_, "baked"), "");
  EXPECT_FALSE(json_.contains("baked"));
  const auto& marched = dynamic_cast<const MarchedModel&>(*model_);
  BakedModel baked{.grid = marched.grid(), .empty_distances = marched.empty_distances()};
  baked.base.assign(size_t{2} * 4, 7);
  baked.slopes.assign(size_t{2} * 9, 5);
  for (const bool has_exact : {true, false}) {
    const std::string html = ViewerFile(state_, *model_, scene_, &baked, has_exact);
    const auto json = nlohmann::json::parse(ElementOf(html, "scene"), nullptr, false);
    EXPECT_EQ(json["bytes"], has_exact ? bytes_.size() : 0);
    EXPECT_EQ(ElementOf(html, "model"), has_exact ? ElementOf(html_, "model") : "");
    EXPECT_EQ(json["baked"]["nodes"], 2);
    EXPECT_EQ(json["baked"]["density"], nlohmann::json({kBakedDensity.low, kBakedDensity.high}));
    std::string packed;
    ASSERT_TRUE(absl::Base64Unescape(ElementOf(html, "baked"), &packed));
    EXPECT_EQ(json["baked"]["bytes"], packed.size());
    const size_t n_blocks = baked.empty_distances.size();
    std::string bytes(9 * n_blocks + 2 * 13 + 1, '\0');
    uLongf size = bytes.size();
    ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                         reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
              Z_OK);
    ASSERT_EQ(size, bytes.size() - 1);
    EXPECT_EQ(std::memcmp(bytes.data(), baked.grid.occupied_blocks.data(), 8 * n_blocks), 0);
    EXPECT_EQ(bytes[9 * n_blocks], 7);
    EXPECT_EQ(bytes[9 * n_blocks + size_t{2} * 4], 5);
  }
}

TEST(ViewerPageTest, CoarseLevelsAreCutToTheirCorners) {
  TrainState state;
  state.config = TinyConfig();
  Ngp(state.config).log2_hashmap_size = 13;
  state.geometry = TinyGeometry();
  ViewerScene scene;
  scene.path.resize(1);
  const std::string html =
      ViewerFile(state, *NgpState(state.config, state.geometry).Snapshot(), scene);
  const auto json = nlohmann::json::parse(ElementOf(html, "scene"), nullptr, false);
  EXPECT_EQ(json["table"]["entries"][0], 17 * 17 * 17);
  EXPECT_EQ(json["table"]["entries"][1], 8192);
}

TEST(ViewerPageTest, PageMayLoadNothing) {
  const std::string page(ViewerPage().front().bytes);
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy\" content=\"default-src 'none';"));
  for (const char* loading : {"http:", "https:", "src=", "@import", "fetch("}) {
    EXPECT_EQ(page.find(loading), std::string::npos) << loading;
  }
}

TEST(CheckViewableTest, OtherModelsAreRefusedByName) {
  TrainConfig config;
  EXPECT_THAT(CheckViewable(config), IsOk());
  config.method = "ngp-autograd";
  EXPECT_THAT(CheckViewable(config), IsOk());
  config.method = "mlp";
  EXPECT_THAT(CheckViewable(config).message(), HasSubstr("method mlp"));
  config = {};
  Ngp(config).n_features_per_level = 2;
  EXPECT_THAT(CheckViewable(config).message(), HasSubstr("n_features_per_level is 2"));
  config = {};
  Ngp(config).sampler = Sampler::kProposals;
  EXPECT_THAT(CheckViewable(config).message(), HasSubstr("sampler is proposals"));
}

}  // namespace
}  // namespace nerf
