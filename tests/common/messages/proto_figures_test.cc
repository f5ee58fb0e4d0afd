#include "common/messages/proto_figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "nerf/v1/training_job.pb.h"
#include "nerf/v1/worker_service.pb.h"

namespace nerf {
namespace {

TEST(ProtoFiguresTest, FiguresComeBackByName) {
  v1::Progress progress;
  EXPECT_TRUE(SetFigure("loss", 0.25, &progress));
  EXPECT_TRUE(SetFigure("evaluated_views", 3, &progress));
  EXPECT_TRUE(SetFigure("rays", 0, &progress));
  EXPECT_EQ(progress.loss(), 0.25);
  EXPECT_EQ(progress.evaluated_views(), 3u);
}

TEST(ProtoFiguresTest, OtherFieldsAreNoFigures) {
  v1::Progress progress;
  for (const char* name : {"", "no_such_field", "preview_image", "figures"}) {
    EXPECT_FALSE(SetFigure(name, 1, &progress)) << name;
  }
}

TEST(ProtoFiguresTest, NonFiniteNumbersAreDropped) {
  v1::Progress progress;
  progress.set_step(7);
  progress.set_loss(0.25);
  progress.set_rays(INFINITY);
  progress.set_seconds(std::nan(""));
  progress.set_psnr_preview(-INFINITY);
  DropNonFinite(&progress);
  EXPECT_EQ(progress.ShortDebugString(), "step: 7 loss: 0.25");
}

TEST(ProtoFiguresTest, CountsAreClampedToTheirField) {
  v1::Progress progress;
  SetFigure("step", 1e20, &progress);
  EXPECT_EQ(progress.step(), 4294967295u);
  SetFigure("step", -1, &progress);
  EXPECT_EQ(progress.step(), 0u);
  SetFigure("step", std::nan(""), &progress);
  EXPECT_EQ(progress.step(), 0u);
}

TEST(ProtoFiguresTest, CountsOf64BitsAreExact) {
  v1::WorkerMetrics metrics;
  EXPECT_TRUE(SetFigure("gpu_memory_used_bytes", 150'754'820'096.0, &metrics));
  EXPECT_EQ(metrics.gpu_memory_used_bytes(), 150'754'820'096u);
  for (const auto& [value, expected] :
       {std::pair<double, uint64_t>{9007199254740992.0, 9007199254740992u},
        {1e300, 9007199254740992u},
        {-1, 0},
        {std::nan(""), 0},
        {0, 0}}) {
    SetFigure("gpu_memory_used_bytes", value, &metrics);
    EXPECT_EQ(metrics.gpu_memory_used_bytes(), expected) << value;
    EXPECT_TRUE(metrics.has_gpu_memory_used_bytes()) << "a figure of 0 is known";
  }
  EXPECT_TRUE(SetFigure("stall_fraction", 0.25, &metrics));
  EXPECT_EQ(metrics.stall_fraction(), 0.25);
}

}  // namespace
}  // namespace nerf
