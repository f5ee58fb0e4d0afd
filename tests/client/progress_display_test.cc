#include "client/show/progress_display.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

class ProgressDisplayTest : public testing::Test {
 protected:
  ProgressDisplayTest() {
    io_.err = &err_;
    io_.clock = &clock_;
  }
  // What was written since the last call.
  std::string Taken() {
    std::string text = err_.str();
    err_.str("");
    return text;
  }

  std::ostringstream err_;
  FakeClock clock_;
  Io io_;
};

TEST_F(ProgressDisplayTest, PlainLinesComeEveryFiveSecondsOrFivePercent) {
  ProgressDisplay display(io_, ProgressMode::kPlain);
  display.Update({.fraction = 0.10, .label = "step  10", .details = "loss 1", .json = ""});
  EXPECT_EQ(Taken(), "step  10   10%  loss 1\n");
  display.Update({.fraction = 0.12, .label = "step  12", .details = "", .json = ""});
  EXPECT_EQ(Taken(), "");
  display.Update({.fraction = 0.5, .label = "too soon", .details = "", .json = ""});
  EXPECT_EQ(Taken(), "");
  clock_.Advance(absl::Seconds(1));
  display.Update({.fraction = 0.151, .label = "step  15", .details = "x", .json = ""});
  EXPECT_EQ(Taken(), "step  15   15%  x\n");
  clock_.Advance(absl::Seconds(5));
  display.Update({.fraction = 0.152, .label = "step  15", .details = "y", .json = ""});
  EXPECT_EQ(Taken(), "step  15   15%  y\n");
}

TEST_F(ProgressDisplayTest, BarIsRedrawnAtMostTenTimesASecond) {
  ProgressDisplay display(io_, ProgressMode::kBar);
  io_.columns = 80;
  for (int i = 0; i < 100; ++i) {
    display.Update({.fraction = i / 100.0, .label = "step", .details = "", .json = ""});
    clock_.Advance(absl::Milliseconds(10));
  }
  const std::string text = Taken();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 11);
  EXPECT_GE(std::count(text.begin(), text.end(), '\r'), 9);
}

TEST_F(ProgressDisplayTest, BarFitsTheTerminalAndEndsWithALine) {
  io_.columns = 40;
  {
    ProgressDisplay display(io_, ProgressMode::kBar);
    display.Update({.fraction = 0.5,
                    .label = "step  1/2",
                    .details = "a very long text that has to be cut somewhere",
                    .json = ""});
    EXPECT_EQ(Taken(), "\r\x1b[Kstep  1/2  ####----  50%  a very long t");
    display.Say("a line");
    EXPECT_EQ(Taken(), "\r\x1b[Ka line\nstep  1/2  ####----  50%  a very long t");
    display.Finish();
    EXPECT_EQ(Taken(), "\r\x1b[Kstep  1/2  ####----  50%  a very long t\n");
  }
  EXPECT_EQ(Taken(), "");
}

TEST_F(ProgressDisplayTest, NothingIsFullBeforeTheEnd) {
  io_.columns = 40;
  ProgressDisplay display(io_, ProgressMode::kBar);
  display.Update({.fraction = 0.999, .label = "step", .details = "", .json = ""});
  EXPECT_EQ(Taken(), "\r\x1b[Kstep  #########################-  99%  ");
  display.Update({.fraction = 1, .label = "step", .details = "", .json = ""});
  display.Finish();
  EXPECT_EQ(Taken(), "\r\x1b[Kstep  ########################## 100%  \n");
}

TEST_F(ProgressDisplayTest, NoneSaysNothingAndJsonSaysAllAsObjects) {
  ProgressDisplay none(io_, ProgressMode::kNone);
  none.Update({.fraction = 0.5, .label = "step", .details = "", .json = "{}"});
  none.Say("a line");
  none.Finish();
  EXPECT_EQ(Taken(), "");
  ProgressDisplay json(io_, ProgressMode::kJson);
  json.Update({.fraction = 0.5, .label = "step", .details = "", .json = "{\"step\":1}"});
  json.Say("a line");
  json.Finish();
  EXPECT_EQ(Taken(), "{\"step\":1}\n{\"event\":\"note\",\"message\":\"a line\"}\n");
}

}  // namespace
}  // namespace nerf
