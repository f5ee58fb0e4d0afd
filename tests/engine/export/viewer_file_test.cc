// What a viewer file holds; tests/web/viewer_file_test.mjs looks at its pictures.
#include "engine/export/viewer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/escaping.h"
#include "engine/field/marched_model.h"
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
