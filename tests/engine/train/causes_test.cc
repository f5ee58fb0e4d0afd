#include "engine/views/measure/causes.h"

#include <cmath>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

// A capture of 40 training and 6 test views without a fault, with the noise that good ones have.
SceneMeasures Clean() {
  SceneMeasures measures;
  measures.n_train_views = 40;
  measures.seen = measures.rays = 3;
  measures.samples = 20;
  measures.n_trained = 40'000'000;
  measures.log2_entries = measures.chosen_log2_entries = 17;
  measures.match_error = measures.match_error_at_scale = 0.002;
  for (int i = 0; i < 46; ++i) {
    ViewMeasure view;
    view.file = fmt::format("{:04}.jpg", i);
    view.is_test = i >= 40;
    const double noise = std::sin(7.0 * i);
    view.psnr = (view.is_test ? 29 : 30) + noise;
    view.psnr_half = view.psnr + 1;
    view.psnr_color = view.psnr + 0.3;
    view.small_psnr = 31 + noise;
    view.small_color = view.small_psnr + 0.3;
    view.sharpness = 0.3 * noise;
    view.match_error = 0.002 + 0.0005 * noise;
    view.exposure = 1 + 0.02 * noise;
    if (view.is_test) {
      view.psnr_camera = view.psnr + 0.2;
      view.psnr_seen = view.psnr + 0.2;
      view.few_seen = 0.05;
    }
    measures.views.push_back(view);
  }
  return measures;
}

std::string First(const SceneMeasures& measures) {
  const std::vector<Cause> causes = FindCauses(measures);
  return causes.empty() ? "" : causes[0].cause + "; " + causes[0].sentence;
}

TEST(CausesTest, AGoodCaptureHasNone) { EXPECT_EQ(First(Clean()), ""); }

TEST(CausesTest, NamesABlurredPhotographByNumberAndFile) {
  SceneMeasures measures = Clean();
  measures.views[30].sharpness = -3.2;
  EXPECT_EQ(
      First(measures),
      "blur; photograph 31 (0030.jpg) is blurred, 3.2 dB of fine detail below the photographs "
      "beside it: leave it out or take it again.");
}

TEST(CausesTest, ADarkPhotographIsNotAllExposures) {
  SceneMeasures measures = Clean();
  measures.views[3].exposure = 0.6;  // and the model has learned that by heart
  EXPECT_THAT(First(measures), HasSubstr("exposure; photograph 4 (0003.jpg) is 0.60 times"));
  for (int i = 0; i < 40; ++i) {
    const double gain = i % 2 == 0 ? 0.7 : 1.4;
    measures.views[i].exposure = gain;
    measures.views[i].small_color = measures.views[i].small_psnr + 6;
  }
  EXPECT_THAT(First(measures), HasSubstr("exposures; The photographs' exposures differ"));
  measures.learned_exposures = true;
  EXPECT_THAT(First(measures), Not(HasSubstr("exposure")));
}

TEST(CausesTest, NamesTwoStrayPosesAndCountsMore) {
  SceneMeasures measures = Clean();
  for (int i : {7, 9}) {
    measures.views[i].small_camera = measures.views[i].small_psnr + 5;
    measures.views[i].match_error = 0.02;
  }
  EXPECT_THAT(First(measures), HasSubstr("stray pose; photographs 8 (0007.jpg) and 10 (0009.jpg) "
                                         "are not where the data set says"));
  for (int i : {11, 12, 13}) {
    measures.views[i].small_camera = measures.views[i].small_psnr + 5;
    measures.views[i].match_error = 0.02;
  }
  EXPECT_THAT(First(measures), HasSubstr("8 (0007.jpg), 10 (0009.jpg) and 3 more are"));
}

TEST(CausesTest, AWrongFocalLengthIsOneFactorOfAll) {
  SceneMeasures measures = Clean();
  measures.match_error = 0.02;
  measures.focal_scale = 0.91;
  measures.views[3].match_error = 0.02;  // it moves some views' matches more than others
  EXPECT_THAT(First(measures), HasSubstr("focal length; The focal length is wrong, with 0.91 "));
  measures.views[3].small_camera = measures.views[3].small_psnr + 8;
  EXPECT_THAT(First(measures), HasSubstr("stray pose; "));
  measures.views[3] = Clean().views[3];
  measures.focal_scale = 0.99;  // what rounding and lenses leave
  EXPECT_EQ(First(measures), "");
}

TEST(CausesTest, WhatDiffersInAllMirrorsAndInSomeHasMoved) {
  SceneMeasures measures = Clean();
  for (int i = 0; i < 12; ++i) {
    measures.place_views.push_back(i);
    measures.views[i].region = {.gain_db = 4, .x = 0.25f, .y = 0.5f, .radius = 0.1f};
  }
  measures.n_showing_place = 14;
  EXPECT_THAT(First(measures),
              HasSubstr("mirror; Something mirrors or never holds still at 0000.jpg, "
                        "25% from the left and 50% from the top, where 12 of 14"));
  measures.n_showing_place = 38;
  EXPECT_THAT(First(measures), HasSubstr("moved; Something has moved at 0000.jpg"));
}

TEST(CausesTest, ALittleBudgetSaysHowMuchIsEnough) {
  SceneMeasures measures = Clean();
  measures.seen = 0.2;
  EXPECT_EQ(First(measures),
            "budget; The training has seen each pixel 0.2 times: give it 5 times the budget "
            "(--samples 200M).");
}

TEST(CausesTest, ATableBelowTheChosenOneCostsOnlyMissingDetail) {
  SceneMeasures measures = Clean();
  measures.log2_entries = 12;
  EXPECT_THAT(First(measures), HasSubstr("table; The table is too coarse, 2^12 entries"));
  for (ViewMeasure& view : measures.views) view.psnr_half = view.psnr;
  EXPECT_EQ(First(measures), "") << "nothing is missing";
}

TEST(CausesTest, FewPicturesAndOneSideThatFewSeeAreToldApart) {
  SceneMeasures measures = Clean();
  for (ViewMeasure& view : measures.views) {
    if (view.is_test) view.psnr -= 6, view.psnr_camera -= 6, view.psnr_seen -= 6;
  }
  EXPECT_THAT(First(measures), HasSubstr("few pictures; Too few pictures, 40 photographs"));
  measures.held_out = false;
  EXPECT_EQ(First(measures), "") << "their gap says nothing where none is held out";
  measures = Clean();
  measures.views[45].few_seen = 0.6;
  measures.views[45].psnr -= 5, measures.views[45].psnr_camera -= 5;
  EXPECT_THAT(First(measures), HasSubstr("occluded; A side is on fewer than three photographs, "
                                         "60% of what 0045.jpg shows"));
}

TEST(CausesTest, TheLargestGainComesFirst) {
  SceneMeasures measures = Clean();
  measures.seen = 0.2;  // 1.4 dB
  measures.views[30].sharpness = -3.2;
  const std::vector<Cause> causes = FindCauses(measures);
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes[0].cause, "blur");
  EXPECT_EQ(causes[1].cause, "budget");
}

}  // namespace
}  // namespace nerf
