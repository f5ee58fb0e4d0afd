#include "engine/program/serve/request_check.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "tests/engine/program/commands/worker_messages.h"
#include "tests/testing/mutator.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using internal::WorkerRequest;

// The fields that are refused, in order.
std::vector<std::string> WrongFields(const WorkerRequest& request) {
  const absl::Status status = CheckRequest(request);
  if (status.ok()) return {};
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid));
  std::vector<std::string> fields;
  for (const Problem& problem : GetProblems(status)) {
    EXPECT_FALSE(problem.message.empty());
    fields.push_back(problem.field);
  }
  EXPECT_FALSE(fields.empty());
  return fields;
}

using Fields = std::vector<std::string>;

WorkerRequest TextsOfRanks(const std::string& job) {
  WorkerRequest request;
  request.set_job(job);
  request.mutable_rank_texts()->add_texts("\xff");
  return request;
}

TEST(RequestCheckTest, EveryKindPassesWithWhatItNeeds) {
  WorkerRequest of_a_job = ValidRender("r");
  of_a_job.set_job("j");
  of_a_job.mutable_render()->clear_file();
  for (const WorkerRequest& request :
       {ValidTrain("j"), TextsOfRanks("j"), StopMessage("j"), StopMessage("j", true), of_a_job,
        ValidRender("r"), CheckMessage("c", "d"), CancelMessage("c")}) {
    EXPECT_THAT(CheckRequest(request), IsOk()) << request.ShortDebugString();
  }
}

TEST(RequestCheckTest, WhatIsMissingIsNamed) {
  EXPECT_EQ(WrongFields({}), Fields{"request"});
  WorkerRequest later;
  later.set_job("j");
  later.GetReflection()->MutableUnknownFields(&later)->AddVarint(99, 1);
  EXPECT_EQ(WrongFields(later), Fields{"request"});
  EXPECT_EQ(WrongFields(ValidTrain("")), Fields{"job"});
  EXPECT_EQ(WrongFields(TextsOfRanks("")), Fields{"job"});
  EXPECT_EQ(WrongFields(StopMessage("")), Fields{"job"});
  EXPECT_EQ(WrongFields(ValidRender("")), Fields{"id"});
  EXPECT_EQ(WrongFields(CheckMessage("", "")), (Fields{"id", "check.dataset"}));
  EXPECT_EQ(WrongFields(CancelMessage("")), Fields{"id"});
}

TEST(RequestCheckTest, EveryWrongFieldIsListed) {
  WorkerRequest request;
  request.set_id(std::string(kMaxNameBytes + 1, 'i'));
  internal::Train& train = *request.mutable_train();
  train.add_merge("");
  train.set_checkpoint_interval_seconds(-1);
  train.set_preview_interval_seconds(-1);
  train.mutable_ranks()->set_rank(3);
  EXPECT_EQ(WrongFields(request),
            (Fields{"id", "job", "train.dataset", "train.out", "train.merge",
                    "train.checkpoint_interval_seconds", "train.preview_interval_seconds",
                    "train.ranks.count", "train.ranks.rank"}));
  request.Clear();
  request.mutable_render();
  EXPECT_EQ(WrongFields(request),
            (Fields{"id", "render.file", "render.out", "render.view.camera"}));
}

TEST(RequestCheckTest, LongNamesAreRefused) {
  const std::string longest(kMaxNameBytes, 'n'), longer(kMaxNameBytes + 1, 'n');
  EXPECT_THAT(CheckRequest(ValidTrain(longest)), IsOk());
  EXPECT_THAT(CheckRequest(CancelMessage(longest)), IsOk());
  EXPECT_EQ(WrongFields(ValidTrain(longer)), Fields{"job"});
  EXPECT_EQ(WrongFields(CancelMessage(longer)), Fields{"id"});
  // Also where the kind does not need them.
  WorkerRequest both = StopMessage(longer);
  both.set_id(longer);
  EXPECT_EQ(WrongFields(both), (Fields{"job", "id"}));
}

TEST(RequestCheckTest, IntervalsAreInTheirRange) {
  using Limits = std::numeric_limits<double>;
  for (const double seconds : {0.0, -0.0, 0.001, 1.0, 1e9}) {
    WorkerRequest request = ValidTrain("j");
    request.mutable_train()->set_checkpoint_interval_seconds(seconds);
    request.mutable_train()->set_preview_interval_seconds(seconds);
    EXPECT_THAT(CheckRequest(request), IsOk()) << seconds;
  }
  for (const double seconds : {-1.0, -1e-300, 1e-300, 0.00099, 1.001e9, std::nan(""),
                               Limits::infinity(), -Limits::infinity(), Limits::max()}) {
    WorkerRequest request = ValidTrain("j");
    request.mutable_train()->set_checkpoint_interval_seconds(seconds);
    EXPECT_EQ(WrongFields(request), Fields{"train.checkpoint_interval_seconds"}) << seconds;
    request = ValidTrain("j");
    request.mutable_train()->set_preview_interval_seconds(seconds);
    EXPECT_EQ(WrongFields(request), Fields{"train.preview_interval_seconds"}) << seconds;
  }
}

TEST(RequestCheckTest, RanksAreAGang) {
  const auto fields_of = [](uint32_t rank, uint32_t count) {
    WorkerRequest request = ValidTrain("j");
    request.mutable_train()->mutable_ranks()->set_rank(rank);
    request.mutable_train()->mutable_ranks()->set_count(count);
    return WrongFields(request);
  };
  EXPECT_EQ(fields_of(0, 2), Fields());
  EXPECT_EQ(fields_of(31, 32), Fields());
  EXPECT_EQ(fields_of(2, 2), Fields{"train.ranks.rank"});
  EXPECT_EQ(fields_of(UINT32_MAX, 2), Fields{"train.ranks.rank"});
  for (const uint32_t count : {1u, 33u, UINT32_MAX})
    EXPECT_EQ(fields_of(0, count), Fields{"train.ranks.count"}) << count;
  EXPECT_EQ(fields_of(0, 0), (Fields{"train.ranks.count", "train.ranks.rank"}));
}

// A NUL would end a path early.
TEST(RequestCheckTest, PathsHaveNoNul) {
  const std::string bad("a\0b", 3);
  const auto of_train = [](const std::function<void(internal::Train&)>& change) {
    WorkerRequest request = ValidTrain("j");
    change(*request.mutable_train());
    return WrongFields(request);
  };
  EXPECT_EQ(of_train([&](auto& train) { train.add_merge(bad); }), Fields{"train.merge"});
  EXPECT_EQ(of_train([&](auto& train) { train.set_dataset(bad); }), Fields{"train.dataset"});
  EXPECT_EQ(of_train([&](auto& train) { train.set_out(bad); }), Fields{"train.out"});
  EXPECT_EQ(of_train([&](auto& train) { train.set_resume(bad); }), Fields{"train.resume"});
  EXPECT_EQ(of_train([&](auto& train) { train.set_init(bad); }), Fields{"train.init"});
  WorkerRequest render = ValidRender("r");
  render.mutable_render()->set_file(bad);
  render.mutable_render()->set_out(bad);
  EXPECT_EQ(WrongFields(render), (Fields{"render.file", "render.out"}));
  WorkerRequest check = CheckMessage("c", bad);
  check.mutable_check()->set_out(bad);
  EXPECT_EQ(WrongFields(check), (Fields{"check.dataset", "check.out"}));
}

TEST(RequestCheckTest, RenderIsOfAFileOrAJob) {
  WorkerRequest request = ValidRender("r");
  request.set_job("j");
  EXPECT_EQ(WrongFields(request), Fields{"render.file"});
  request.mutable_render()->clear_file();
  EXPECT_THAT(CheckRequest(request), IsOk());
  request.clear_job();
  EXPECT_EQ(WrongFields(request), Fields{"render.file"});
}

// The fields that are wrong in a render whose view was changed.
Fields WrongInView(const std::function<void(v1::RenderImageRequest&)>& change) {
  WorkerRequest request = ValidRender("r");
  change(*request.mutable_render()->mutable_view());
  return WrongFields(request);
}

TEST(RequestCheckTest, ViewIsOfACameraOrAPath) {
  EXPECT_EQ(WrongInView([](auto& view) { view.clear_orbit(); }), Fields{"render.view.camera"});
  EXPECT_EQ(WrongInView([](auto& view) { view.mutable_camera(); }), Fields{"render.view.camera"});
  EXPECT_EQ(WrongInView([](auto& view) { view.clear_orbit(), view.mutable_camera(); }), Fields());
  const auto of_path = [](uint32_t index, uint32_t count) {
    return WrongInView([&](auto& view) {
      view.mutable_orbit()->set_index(index);
      view.mutable_orbit()->set_count(count);
    });
  };
  EXPECT_EQ(of_path(2, 3), Fields());
  EXPECT_EQ(of_path(INT32_MAX - 1, INT32_MAX), Fields());
  EXPECT_EQ(of_path(3, 3), Fields{"render.view.orbit.index"});
  EXPECT_EQ(of_path(0, 0), (Fields{"render.view.orbit.count", "render.view.orbit.index"}));
  EXPECT_EQ(of_path(0, 2'147'483'648), Fields{"render.view.orbit.count"});
}

TEST(RequestCheckTest, WhatAViewIsLikeIsInItsRange) {
  EXPECT_EQ(WrongInView([](auto& view) { view.set_width(2'147'483'648); }),
            Fields{"render.view.width"});
  EXPECT_EQ(WrongInView([](auto& view) { view.set_height(2'147'483'648); }),
            Fields{"render.view.height"});
  for (const int channel : {-1, 0, 6, 77, INT32_MAX}) {
    EXPECT_EQ(WrongInView([&](auto& view) {
                view.add_channels(v1::RGB);
                view.add_channels(static_cast<v1::RenderChannel>(channel));
              }),
              Fields{"render.view.channels[1]"})
        << channel;
  }
  EXPECT_EQ(WrongInView([](auto& view) {
              for (const auto channel : {v1::RGB, v1::DEPTH, v1::OPACITY, v1::RGBA})
                view.add_channels(channel);
            }),
            Fields{"render.view.channels"});
  EXPECT_EQ(WrongInView([](auto& view) { view.add_channels(v1::RGBAZ); }),
            Fields{"render.view.channels[0]"});
  EXPECT_EQ(WrongInView([](auto& view) {
              view.add_channels(v1::RGBAZ);
              view.set_format(v1::EXR);
            }),
            Fields());
  WorkerRequest live;
  live.set_id("1");
  live.mutable_render()->set_file("f");
  live.mutable_render()->set_out("o");
  live.mutable_render()->mutable_live()->set_jpeg_quality(80);
  live.mutable_render()->mutable_view()->mutable_orbit()->set_count(1);
  live.mutable_render()->mutable_view()->set_format(v1::EXR);
  EXPECT_THAT(CheckRequest(live), IsOk());
  live.mutable_render()->mutable_view()->add_channels(v1::RGBAZ);
  EXPECT_THAT(CheckRequest(live), StatusIs(absl::StatusCode::kInvalidArgument, "JPEG"));
  for (const auto format : {v1::IMAGE_FORMAT_UNSPECIFIED, v1::PNG, v1::JPEG, v1::EXR})
    EXPECT_EQ(WrongInView([&](auto& view) { view.set_format(format); }), Fields());
  EXPECT_EQ(WrongInView([](auto& view) { view.set_format(static_cast<v1::ImageFormat>(4)); }),
            Fields{"render.view.format"});
}

TEST(RequestCheckTest, StyleIsChecked) {
  EXPECT_EQ(WrongInView([](auto& view) { view.mutable_style()->add_background(0.5); }),
            Fields{"render.view.style.background"});
  EXPECT_EQ(WrongInView([](auto& view) { view.mutable_style()->mutable_crop()->add_size(1); }),
            (Fields{"render.view.style.crop.center", "render.view.style.crop.size"}));
  EXPECT_EQ(WrongInView([](auto& view) {
              for (const double side : {1.0, 0.0, 1.0}) {
                view.mutable_style()->mutable_crop()->add_center(side);
                view.mutable_style()->mutable_crop()->add_size(side);
              }
            }),
            Fields{"render.view.style.crop.size[1]"});
}

TEST(RequestCheckTest, LiveFrameHasAQuality) {
  for (const uint32_t quality : {0u, 1u, 100u, 101u, UINT32_MAX}) {
    WorkerRequest request = ValidRender("r");
    request.mutable_render()->mutable_live()->set_jpeg_quality(quality);
    EXPECT_EQ(WrongFields(request),
              quality == 1 || quality == 100 ? Fields() : Fields{"render.live.jpeg_quality"});
  }
}

// What a worker could send that is broken, or of another version.
TEST(RequestCheckTest, HostileBytesAreParsedAndCheckedWithoutACrash) {
  WorkerRequest train = ValidTrain("j");
  train.mutable_train()->mutable_origin()->set_request_id("r-1");
  train.mutable_train()->mutable_config()->set_method("ngp");
  train.mutable_train()->mutable_config()->set_samples(1e6);
  train.mutable_train()->mutable_config()->set_test_every(0);
  (*train.mutable_train()->mutable_config()->mutable_settings())["ema_decay"] = "0.9";
  train.mutable_train()->add_merge("/m");
  train.mutable_train()->set_checkpoint_interval_seconds(5);
  train.mutable_train()->mutable_ranks()->set_count(4);
  WorkerRequest of_a_path = ValidRender("r");
  v1::RenderImageRequest& view = *of_a_path.mutable_render()->mutable_view();
  view.add_channels(v1::DEPTH);
  view.set_format(v1::EXR);
  for (const double part : {0.0, 0.5, 1.0}) view.mutable_style()->add_background(part);
  for (const double part : {0.0, 0.0, 0.0, 1.0})
    view.mutable_style()->mutable_crop()->add_turn(part);
  view.mutable_style()->mutable_panorama()->set_stereo(v1::Panorama::LEFT_RIGHT);
  of_a_path.mutable_render()->mutable_live()->set_jpeg_quality(40);
  WorkerRequest of_a_camera = ValidRender("r");
  v1::Camera& camera = *of_a_camera.mutable_render()->mutable_view()->mutable_camera();
  camera.set_width(400);
  for (int i = 0; i < 16; ++i) camera.add_transform_matrix(i % 5 == 0);
  WorkerRequest check = CheckMessage("c", "d");
  check.mutable_check()->set_test_every(8);
  std::vector<std::string> seeds;
  for (const WorkerRequest& request : {train, TextsOfRanks("j"), StopMessage("j", true), of_a_path,
                                       of_a_camera, check, CancelMessage("c")}) {
    seeds.push_back(request.SerializeAsString());
  }
  const std::vector<std::string> words = {"\xff\xff\xff\xff\x0f",
                                          std::string("\0", 1),
                                          "\x0a",
                                          "\x1a",
                                          "\x32",
                                          "\x7b",
                                          "\x7c",
                                          std::string("\0\0\0\0\0\0\xf8\x7f", 8)};
  const google::protobuf::LogSilencer silencer;  // it tells of each text that is not UTF-8
  uint64_t n_parsed = 0, n_wrong = 0;
  const auto check_bytes = [&](const std::string& bytes) {
    WorkerRequest request;
    if (!request.ParseFromString(bytes)) return;
    ++n_parsed;
    if (!WrongFields(request).empty()) ++n_wrong;
  };
  // Any other byte at any place.
  for (std::string bytes : seeds) {
    for (char& byte : bytes) {
      const char right = byte;
      for (int i = 0; i < 256; ++i) {
        byte = static_cast<char>(i);
        check_bytes(bytes);
      }
      byte = right;
    }
  }
  EXPECT_GT(n_parsed, 50'000u);
  EXPECT_GT(n_wrong, 5'000u);
  EXPECT_LT(n_wrong, n_parsed);
  n_parsed = n_wrong = 0;
  Fuzz(seeds, words, 100'000, check_bytes);
  EXPECT_GT(n_parsed, 5'000u);
  EXPECT_GT(n_wrong, 500u);
}

}  // namespace
}  // namespace nerf
