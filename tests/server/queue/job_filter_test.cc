#include "server/queue/state/job_filter.h"

#include <gtest/gtest.h>

#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

class JobFilterTest : public testing::Test {
 protected:
  JobFilterTest() {
    job_.state = JobState::kRunning;
    job_.training.scene = "mic";
    job_.display_name = "night \"run\"";
    job_.priority = 7;
    job_.labels = {{"team", "blue"}};
  }
  bool Matches(const std::string& text) const {
    const auto filter = JobFilter::Parse(text);
    EXPECT_THAT(filter, IsOk()) << text;
    return filter.ok() && filter->Matches(job_);
  }

  Job job_;
};

TEST_F(JobFilterTest, EmptyFilterMatchesEveryJob) {
  EXPECT_TRUE(Matches(""));
  EXPECT_TRUE(Matches("  "));
}

TEST_F(JobFilterTest, EveryFieldIsCompared) {
  for (const char* text :
       {"kind = training", "kind != render", "state = RUNNING", "state != QUEUED", "scene = mic",
        "scene != \"lego\"", "display_name = \"night \\\"run\\\"\"", "labels.team = blue",
        "labels.team=\"blue\"", "labels.other = \"\"", "labels.other != x", "priority = 7",
        "priority>=7", "priority <= 7", "priority > -7", "priority < 8",
        "state = RUNNING AND labels.team = blue"}) {
    EXPECT_TRUE(Matches(text)) << text;
  }
  for (const char* text :
       {"kind = render", "kind != training", "state = QUEUED", "scene = lego",
        "display_name = night", "labels.team != blue", "labels.other = x", "priority > 7",
        "state = RUNNING AND labels.team = red", "priority != 7"}) {
    EXPECT_FALSE(Matches(text)) << text;
  }
}

TEST_F(JobFilterTest, WrongTextsAreRefused) {
  for (const std::string& text : {std::string("kind = rendering"),
                                  std::string("kind = Render"),
                                  std::string("kind = \"\""),
                                  std::string("kind > pose"),
                                  std::string("state"),
                                  std::string("state ="),
                                  std::string("state = running"),
                                  std::string("state < RUNNING"),
                                  std::string("name = x"),
                                  std::string("labels. = x"),
                                  std::string("labels.Team = x"),
                                  std::string("scene = \"mic"),
                                  std::string("scene = \"\\"),
                                  std::string("priority = high"),
                                  std::string("state = RUNNING OR scene = mic"),
                                  std::string("state = RUNNING scene = mic"),
                                  std::string("state = RUNNING AND"),
                                  std::string("AND"),
                                  std::string("= RUNNING"),
                                  std::string("scene ~ mic"),
                                  std::string(2000, ' ')}) {
    EXPECT_THAT(JobFilter::Parse(text),
                FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid))
        << text;
  }
}

}  // namespace
}  // namespace nerf
