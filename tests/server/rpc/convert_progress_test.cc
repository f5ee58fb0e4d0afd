#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "server/rpc/convert/convert_report.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(ConvertProgressTest, EveryFieldComesBack) {
  v1::Progress progress;
  progress.set_step(7);
  progress.set_fraction(0.5);
  progress.set_loss(0.25);
  progress.set_eta_seconds(9);
  progress.set_evaluated_views(3);
  progress.set_preview_step(6);
  progress.set_psnr_preview(30);
  (*progress.mutable_figures())["learning_rate"] = 0.01;
  const absl::StatusOr<v1::Progress> stored = ReportedProgress(progress);
  ASSERT_THAT(stored, IsOk());
  EXPECT_EQ(stored->DebugString(), progress.DebugString());
}

TEST(ConvertProgressTest, HostileFiguresAreDropped) {
  v1::Progress progress;
  progress.set_loss(std::nan(""));
  progress.set_rays(std::numeric_limits<double>::infinity());
  auto& figures = *progress.mutable_figures();
  for (const std::string name : {"", "Loss", "a b", "step", "psnr_preview", "preview_image"}) {
    figures[name] = 1;
  }
  figures[std::string(1000, 'x')] = 1;
  figures["endless"] = std::numeric_limits<double>::infinity();
  const absl::StatusOr<v1::Progress> stored = ReportedProgress(progress);
  ASSERT_THAT(stored, IsOk());
  EXPECT_EQ(stored->DebugString(), "");
}

TEST(ConvertProgressTest, FiguresAreAtMostAHundred) {
  v1::Progress progress;
  progress.set_loss(1);
  for (int i = 0; i < 5000; ++i) (*progress.mutable_figures())["f" + std::to_string(i)] = 1;
  const absl::StatusOr<v1::Progress> stored = ReportedProgress(progress);
  ASSERT_THAT(stored, IsOk());
  EXPECT_EQ(stored->figures_size(), 100);
  EXPECT_EQ(stored->loss(), 1);
}

}  // namespace
}  // namespace nerf
