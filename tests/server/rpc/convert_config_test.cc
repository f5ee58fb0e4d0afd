#include "server/rpc/convert/convert_config.h"

#include <gtest/gtest.h>

#include <string>

#include "server/queue/records/basic_messages.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(ConvertConfigTest, StartIsReadAndAWrongOneRefusedByItsField) {
  const auto read = [](const v1::Init& init, const std::string& wrong) {
    v1::TrainingConfig proto;
    *proto.mutable_init() = init;
    RequestCheck check;
    const auto reference = ParseInit("config", proto, check);
    if (wrong.empty()) {
      EXPECT_THAT(check.Result(), IsOk());
    } else {
      EXPECT_THAT(check.Result(), StatusIs(absl::StatusCode::kInvalidArgument, wrong));
    }
    return reference.value_or(InitReference());
  };
  RequestCheck check;
  EXPECT_EQ(ParseInit("config", {}, check), std::nullopt);
  v1::Init init;
  read(init, "config.init");
  init.set_model("projects/p/models/m");
  EXPECT_EQ(read(init, "").kind, InitReference::Kind::kModel);
  EXPECT_EQ(read(init, "").source.id, "m");
  init.set_scope("half");
  read(init, "config.init.scope");
  init.clear_scope();
  init.set_model("m");
  read(init, "config.init.model");
  init.set_checkpoint("projects/p/jobs/j/checkpoints/7");
  EXPECT_EQ(read(init, "").kind, InitReference::Kind::kCheckpoint);
  EXPECT_EQ(read(init, "").step, 7u);
  init.set_checkpoint("projects/p/jobs/j");
  read(init, "config.init.checkpoint");
}

TEST(ConvertConfigTest, StartComesBack) {
  v1::TrainingConfig proto;
  for (const bool of_a_job : {false, true}) {
    v1::Init& init = *proto.mutable_init();
    if (of_a_job) {
      init.set_checkpoint("projects/p/jobs/j/checkpoints/7");
    } else {
      init.set_model("projects/p/models/m");
    }
    init.set_scope("all");
    RequestCheck check;
    const auto reference = ParseInit("config", proto, check);
    ASSERT_TRUE(reference.has_value());
    EXPECT_EQ(ToProto(*reference).SerializeAsString(), init.SerializeAsString());
  }
}

}  // namespace
}  // namespace nerf
