#include "engine/base/messages/render_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/messages/view_flags.h"
#include "engine/base/messages/view_style.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> FieldsOf(const Problems& problems) {
  std::vector<std::string> fields;
  for (const Problem& problem : problems) fields.push_back(problem.field);
  return fields;
}

TEST(RenderCheckTest, StyleIsReadAndWritten) {
  v1::ViewStyle message;
  for (const double part : {0.0, 0.5, 1.0}) message.add_background(part);
  for (const double number : {1.0, 2.0, 3.0}) message.mutable_crop()->add_center(number);
  for (const double side : {4.0, 5.0, 6.0}) message.mutable_crop()->add_size(side);
  for (const double part : {0.0, 0.6, 0.0, 0.8}) message.mutable_crop()->add_turn(part);
  message.mutable_panorama()->set_stereo(v1::Panorama::LEFT_RIGHT);
  message.mutable_panorama()->set_eye_distance(0.0625);
  ViewStyle expected;
  expected.background = {0, 0.5f, 1};
  expected.crop = OwnBox{{1, 2, 3}, {4, 5, 6}, {0, 0.6, 0, 0.8}};
  expected.panorama = Panorama{StereoLayout::kLeftRight, 0.0625};
  Problems problems;
  EXPECT_EQ(ReadViewStyle("style", message, &problems), expected);
  EXPECT_EQ(ToMessage(expected).SerializeAsString(), message.SerializeAsString());
  message.mutable_panorama()->Clear();
  EXPECT_EQ(ReadViewStyle("style", message, &problems).panorama, Panorama());
  EXPECT_EQ(ReadViewStyle("style", {}, &problems), ViewStyle());
  EXPECT_THAT(problems.list(), IsEmpty());
  message.set_whole(true);
  ReadViewStyle("style", message, &problems);
  EXPECT_THAT(FieldsOf(problems), ElementsAre("style.whole"));
}

v1::RenderSpec MovieSpec() {
  v1::RenderSpec spec;
  spec.mutable_path()->mutable_scene()->set_frames(2);
  spec.set_width(64);
  spec.set_height(48);
  spec.set_movie(true);
  return spec;
}

TEST(RenderCheckTest, JobIsCheckedFieldByField) {
  EXPECT_THAT(ProblemsOf(MovieSpec()).list(), IsEmpty());
  const std::pair<const char*, std::function<void(v1::RenderSpec&)>> cases[] = {
      {"path", [](auto& spec) { spec.clear_path(); }},
      {"path.scene.frames", [](auto& spec) { spec.mutable_path()->mutable_scene()->Clear(); }},
      {"path.keyframes.frames",
       [](auto& spec) {
         v1::KeyframePath& path = *spec.mutable_path()->mutable_keyframes();
         path.add_keyframes()->set_fov_degrees(50);
         for (int i = 0; i < 16; ++i) path.mutable_keyframes(0)->add_transform_matrix(i % 5 == 0);
         path.set_frames(3601);
       }},
      {"width", [](auto& spec) { spec.set_width(16385); }},
      {"height", [](auto& spec) { spec.clear_height(); }},
      {"fps", [](auto& spec) { spec.set_fps(241); }},
      {"channels[1]", [](auto& spec) { spec.add_channels(v1::RGB), spec.add_channels(v1::RGB); }},
      {"channels", [](auto& spec) { spec.add_channels(v1::RGB), spec.add_channels(v1::RGBA); }},
      {"channels[0]", [](auto& spec) { spec.add_channels(v1::RGBAZ); }},
      {"channels",
       [](auto& spec) {
         spec.set_movie(false), spec.set_images(true), spec.set_format(v1::EXR);
         spec.add_channels(v1::RGBAZ), spec.add_channels(v1::RGBA);
       }},
      {"style.background", [](auto& spec) { spec.mutable_style()->add_background(1); }},
      {"images", [](auto& spec) { spec.set_movie(false); }},
      {"movie", [](auto& spec) { spec.set_format(v1::EXR); }},
      {"format", [](auto& spec) { spec.set_format(v1::JPEG); }},
  };
  for (const auto& [field, change] : cases) {
    v1::RenderSpec spec = MovieSpec();
    change(spec);
    EXPECT_THAT(FieldsOf(ProblemsOf(spec)), ElementsAre(field));
  }
}

TEST(RenderCheckTest, ChannelsAreReadAndOthersRefused) {
  EXPECT_THAT(ParseChannels("depth,rgb"), IsOkAndHolds(ElementsAre(v1::DEPTH, v1::RGB)));
  EXPECT_THAT(ParseChannels("rgba"), IsOkAndHolds(ElementsAre(v1::RGBA)));
  EXPECT_THAT(ParseChannels("rgbaz,depth"), IsOkAndHolds(ElementsAre(v1::RGBAZ, v1::DEPTH)));
  const std::pair<const char*, const char*> wrong[] = {{"normals", "'normals' is not one of"},
                                                       {"", "is not one of"},
                                                       {"rgb,", "is not one of"},
                                                       {"rgb,rgba", "in place of rgb"},
                                                       {"rgbaz,rgba", "in place of rgb and rgba"},
                                                       {"depth,depth", "twice"}};
  for (const auto& [text, said] : wrong)
    EXPECT_THAT(ParseChannels(text), StatusIs(absl::StatusCode::kInvalidArgument, said)) << text;
}

TEST(RenderCheckTest, DefaultsAreFilledIn) {
  v1::RenderSpec spec = MovieSpec();
  spec.GetReflection()->MutableUnknownFields(&spec)->AddVarint(99, 1);
  const v1::RenderSpec filled = WithDefaults(spec);
  EXPECT_THAT(filled.channels(), ElementsAre(v1::RGB));
  EXPECT_EQ(filled.fps(), 30);
  EXPECT_TRUE(filled.GetReflection()->GetUnknownFields(filled).empty());
}

}  // namespace
}  // namespace nerf
