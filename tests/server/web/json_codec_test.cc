#include "server/web/json_codec.h"

#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"
#include "google/rpc/error_details.pb.h"
#include "nerf/v1/job_service.pb.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::HasSubstr;

TEST(JsonCodecTest, RequestsMaySpellNamesBothWays) {
  const auto& type = *v1::CreateJobRequest::descriptor();
  for (const char* json :
       {R"({"jobId":"j","job":{"displayName":"s","training":{"config":{"steps":5}}}})",
        R"({"job_id":"j","job":{"display_name":"s","training":{"config":{"steps":5}}}})"}) {
    const auto binary = JsonToBinary(type, json);
    ASSERT_THAT(binary, IsOk());
    v1::CreateJobRequest request;
    ASSERT_TRUE(request.ParseFromString(*binary));
    EXPECT_EQ(request.job_id(), "j");
    EXPECT_EQ(request.job().display_name(), "s");
    EXPECT_EQ(request.job().training().config().steps(), 5u);
  }
}

TEST(JsonCodecTest, WhatIsNotTheMessageIsRefused) {
  const auto& type = *v1::CreateJobRequest::descriptor();
  std::string deep = "{}";
  for (int i = 0; i < 2000; ++i) deep = R"({"job":)" + deep + "}";
  for (const std::string& json :
       {std::string(""), std::string("{"), std::string("[]"), std::string("null"),
        std::string("{} {}"), std::string(R"({"noSuchField":1})"), std::string(R"({"job":5})"),
        std::string(R"({"validateOnly":"maybe"})"),
        std::string(R"({"requestId":")") + "\xff\xfe" + R"("})", deep}) {
    EXPECT_THAT(JsonToBinary(type, json),
                FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid))
        << json.substr(0, 80);
  }
}

TEST(JsonCodecTest, AnswersCarryZerosAndEmptyListsToo) {
  v1::Job job;
  job.set_name("projects/default/jobs/a");
  job.mutable_training_status()->mutable_progress()->set_loss(0.5);
  const auto json = BinaryToJson(*v1::Job::descriptor(), job.SerializeAsString());
  ASSERT_THAT(json, IsOk());
  EXPECT_THAT(*json, HasSubstr(R"("attempt":0)"));
  EXPECT_THAT(*json, HasSubstr(R"("checkpoints":[])"));
  EXPECT_THAT(*json, HasSubstr(R"("state":"STATE_UNSPECIFIED")"));
  EXPECT_THAT(*json, HasSubstr(R"("loss":0.5)"));
  EXPECT_THAT(*json, testing::Not(HasSubstr("finalPsnr")));
}

TEST(JsonCodecTest, DetailsOfAJobsErrorAreWrittenOut) {
  v1::Job job;
  google::rpc::ErrorInfo error_info;
  error_info.set_reason("ENGINE_CRASHED");
  job.mutable_error()->add_details()->PackFrom(error_info);
  const auto json = BinaryToJson(*v1::Job::descriptor(), job.SerializeAsString());
  ASSERT_THAT(json, IsOk());
  EXPECT_THAT(*json, HasSubstr(R"("@type":"type.googleapis.com/google.rpc.ErrorInfo")"));
}

}  // namespace
}  // namespace nerf
