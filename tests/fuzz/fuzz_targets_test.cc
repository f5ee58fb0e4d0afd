// Every fuzz target, with mutations of its seeds: always the same ones in ctest; others for as long
// as NERF_FUZZ_SECONDS says (tests/testing/mutator.h).
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "server/queue/records/job_message.h"
#include "server/rpc/convert/convert_job.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/sample_jobs.h"
#include "tests/testing/mutator.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

class FuzzTargetsTest : public testing::TestWithParam<const FuzzTarget*> {};

TEST_P(FuzzTargetsTest, KeepsItsPromisesForMutatedSeeds) {
  const google::protobuf::LogSilencer quiet;
  const FuzzTarget& target = *GetParam();
  // Tags and lengths of messages, numbers that do not fit, and names.
  const std::vector<std::string> words = {std::string(1, '\0'),
                                          "\x08\x01",
                                          "\x0a",
                                          std::string("\x12\x00", 2),
                                          "\xff\xff\xff\xff\x0f",
                                          "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                                          std::string("\x00\x00\x00\x00\x00\x00\xf8\x7f", 8),
                                          "projects/default/jobs/j",
                                          "checkpoints/-",
                                          "..",
                                          "\xc3\x28"};
  const uint64_t n = Fuzz(target.seeds(), words, 100'000, [&](const std::string& input) {
    const std::string wrong = target.check(input);
    ASSERT_EQ(wrong, "") << testing::PrintToString(input);
  });
  std::cout << target.name << ": " << n << " inputs\n";
}

// Seeds that were refused would try the refusal alone.
TEST(FuzzSeedsTest, SampleJobsAreAccepted) {
  for (const Job& job : SampleJobs()) {
    v1::CreateJobRequest request;
    *request.mutable_job() = JobMessage(job, /*whole=*/true);
    EXPECT_THAT(FromProto(request), IsOk());
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTargetsTest,
                         testing::Values(&kRequestsTarget, &kRecordsTarget, &kEngineTarget),
                         [](const auto& target) { return std::string(target.param->name); });

}  // namespace
}  // namespace nerf
