#include "engine/base/config/psnr_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_join.h"

namespace nerf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string AdviceOn(const TrainedQuality& trained) {
  return absl::StrJoin(LowPsnrAdvice(trained), "\n");
}

TEST(LowPsnrAdviceTest, GoodTrainingsGetNone) {
  EXPECT_THAT(LowPsnrAdvice({.psnr = 22, .samples = 1e6}), IsEmpty());
  EXPECT_THAT(LowPsnrAdvice({.psnr = 35, .psnr_train = 45}), IsEmpty());
  EXPECT_THAT(LowPsnrAdvice({.psnr = std::nan("")}), IsEmpty()) << "every pixel was masked";
}

TEST(LowPsnrAdviceTest, LittleTrainingIsNamedFirst) {
  const std::string advice =
      AdviceOn({.psnr = 19.02, .psnr_train = 19.5, .samples = 3.14e6, .check_command = "check x"});
  EXPECT_THAT(advice, HasSubstr("a test PSNR of 19.0 dB is low; its likely reasons:\n"
                                "  - little training (3.1 M samples): --samples 60M\n"));
  EXPECT_THAT(advice, AllOf(HasSubstr("the warnings of `check x`"), HasSubstr("things that moved"),
                            Not(HasSubstr("far better")), Not(HasSubstr("few photographs"))));
}

TEST(LowPsnrAdviceTest, FewPhotographsAndBetterTrainingViewsAreNamed) {
  const TrainedQuality trained = {
      .psnr = 16, .psnr_train = 28.25, .samples = 60e6, .n_train_views = 7, .check_command = "c"};
  EXPECT_THAT(AdviceOn(trained), AllOf(HasSubstr("few photographs (7 to train on)"),
                                       HasSubstr("training views are far better (28.2 dB)"),
                                       Not(HasSubstr("little training"))));
}

// Of views that were compared with photographs, what differs from the training comes first.
TEST(LowPsnrAdviceTest, OtherFocalLengthAndFarCamerasAreNamedFirst) {
  TrainedQuality compared = {.psnr = 5.53,
                             .samples = 1e6,
                             .check_command = "c",
                             .psnr_name = "PSNR",
                             .focal_ratio = 0.5,
                             .n_far_views = 2,
                             .n_views = 8};
  EXPECT_THAT(AdviceOn(compared),
              HasSubstr("a PSNR of 5.5 dB is low; its likely reasons:\n"
                        "  - another focal length: it is 0.50 times that of the training; see "
                        "camera_angle_x or fl_x in the data set\n"
                        "  - cameras of another data set: 2 of 8 views are far from all training "
                        "views\n"
                        "  - little training"));
  compared.focal_ratio = 1.05;
  compared.n_far_views = 0;
  EXPECT_THAT(AdviceOn(compared),
              AllOf(Not(HasSubstr("focal length")), Not(HasSubstr("cameras of another"))));
}

}  // namespace
}  // namespace nerf
