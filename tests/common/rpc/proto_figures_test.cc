#include "common/rpc/proto_figures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nerf/v1/training_job.pb.h"

namespace nerf {
namespace {

using NamedFigures = std::map<std::string, double>;

TEST(ProtoFiguresTest, FiguresComeBackByName) {
  v1::Progress progress;
  EXPECT_TRUE(SetFigure("loss", 0.25, &progress));
  EXPECT_TRUE(SetFigure("evaluated_views", 3, &progress));
  EXPECT_TRUE(SetFigure("rays", 0, &progress));
  EXPECT_EQ(progress.loss(), 0.25);
  EXPECT_EQ(progress.evaluated_views(), 3u);
  EXPECT_EQ(Figures(progress), (NamedFigures{{"loss", 0.25}, {"evaluated_views", 3}}));
}

TEST(ProtoFiguresTest, OtherFieldsAreNoFigures) {
  v1::Progress progress;
  for (const char* name : {"", "no_such_field", "preview_image", "figures"}) {
    EXPECT_FALSE(SetFigure(name, 1, &progress)) << name;
  }
  progress.set_psnr_preview(30);
  progress.mutable_preview_image()->set_size_bytes(3);
  EXPECT_EQ(Figures(progress), NamedFigures());
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

}  // namespace
}  // namespace nerf
