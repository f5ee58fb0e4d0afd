#include "engine/protocol/engine_message.h"

#include <gtest/gtest.h>

#include <cmath>
#include "engine/protocol/line_splitter.h"
#include "tests/engine/protocol/wrong_lines.h"
#include "tests/testing/status_matchers.h"

namespace nerf::protocol {
namespace {

using absl::StatusCode;

template <typename Message>
Message MessageRoundTrip(const Message& message) {
  const std::string line = ToLine(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const absl::StatusOr<EngineMessage> read = ParseEngineMessage(line);
  EXPECT_THAT(read, IsOk()) << line;
  if (!read.ok()) return {};
  const auto* found = std::get_if<Message>(&*read);
  EXPECT_NE(found, nullptr) << line;
  return found == nullptr ? Message() : *found;
}

TEST(EngineMessageTest, HelloAndStartedSurviveARoundTrip) {
  const Hello hello =
      MessageRoundTrip(Hello{"1", "cpu", "d", 4, {"ngp", "other"}, {"other"}, true});
  EXPECT_TRUE(hello.writes_nanovdb);
  EXPECT_EQ(hello.version, "1");
  EXPECT_EQ(hello.threads, 4u);
  EXPECT_EQ(hello.methods, (std::vector<std::string>{"ngp", "other"}));
  EXPECT_EQ(hello.merges, std::vector<std::string>{"other"});

  Started started;
  started.job = "j";
  started.train_views = 6;
  started.test_views = 2;
  started.warnings = {"w"};
  started.step = 9;
  started.config.budget = {"steps", 30};
  started.config.settings = {{"a", "1"}};
  const Started read = MessageRoundTrip(started);
  EXPECT_EQ(read.job, "j");
  EXPECT_EQ(read.config.budget->kind, "steps");
  EXPECT_EQ(read.config.settings, started.config.settings);
  EXPECT_EQ(read.train_views, 6u);
  EXPECT_EQ(read.test_views, 2u);
  EXPECT_EQ(read.warnings, started.warnings);
  EXPECT_EQ(read.step, 9u);
}

TEST(EngineMessageTest, MessagesOfAJobSurviveARoundTrip) {
  Progress progress{"j", {}};
  progress.progress.loss = 0.5;
  EXPECT_EQ(MessageRoundTrip(progress).progress.loss, 0.5);
  const Preview preview = MessageRoundTrip(Preview{"j", 3, 20.5, "/p"});
  EXPECT_EQ(preview.psnr, 20.5);
  EXPECT_EQ(preview.image, "/p");
  EXPECT_FALSE(MessageRoundTrip(Preview{"j", 3, std::nullopt, "/p"}).psnr.has_value());
  const Checkpoint checkpoint = MessageRoundTrip(
      Checkpoint{"j", 4, "/c", "/m", {{"a", "F16", {3, 4294967295}}}, std::nullopt});
  EXPECT_EQ(checkpoint.checkpoint, "/c");
  EXPECT_EQ(checkpoint.model, "/m");
  ASSERT_EQ(checkpoint.tensors.size(), 1u);
  EXPECT_EQ(checkpoint.tensors[0].dtype, "F16");
  EXPECT_EQ(checkpoint.tensors[0].shape, (std::vector<uint32_t>{3, 4294967295}));
  EXPECT_FALSE(checkpoint.psnr.has_value());
  EXPECT_EQ(MessageRoundTrip(Stopped{"j", 5}).step, 5u);
  Done done{"j", {}};
  done.summary.psnr = 30;
  EXPECT_EQ(MessageRoundTrip(done).summary.psnr, 30);
  EXPECT_TRUE(MessageRoundTrip(done).test_views.empty());
  done.test_views = {{"test/r_0.png", 31.25}, {"same.png", INFINITY}, {"b.png", 20}};
  const std::vector<TestViewScore> scores = MessageRoundTrip(done).test_views;
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(scores[0].file, "test/r_0.png");
  EXPECT_EQ(scores[0].psnr, 31.25);
  EXPECT_EQ(scores[1].file, "b.png");
  const Failed failed = MessageRoundTrip(
      Failed{"j", {StatusCode::kAborted, "GRID_EMPTY", "m"}, {{"f", "k", "p"}, {"", "", "q"}}});
  EXPECT_EQ(failed.error.code, StatusCode::kAborted);
  EXPECT_EQ(failed.error.reason, "GRID_EMPTY");
  ASSERT_EQ(failed.problems.size(), 2u);
  EXPECT_EQ(failed.problems[0].field, "k");
}

TEST(EngineMessageTest, AnswersToRequestsSurviveARoundTrip) {
  EXPECT_EQ(MessageRoundTrip(Working{"r"}).id, "r");
  const Rendered rendered =
      MessageRoundTrip(Rendered{"r", {{"rgb", "/a"}, {"depth", "/b"}}, 4, 3, 2.5, 9, 0.25});
  EXPECT_EQ(rendered.path, "");
  EXPECT_FALSE(rendered.seen_twice.has_value());
  EXPECT_FALSE(rendered.far_from_cameras);
  const Rendered on_path = MessageRoundTrip(
      Rendered{"r", {{"rgb", "/a"}}, 4, 3, 0, 9, 0.25, "spiral", 40, 30, 0.5, true});
  EXPECT_TRUE(on_path.far_from_cameras);
  EXPECT_EQ(on_path.path, "spiral");
  EXPECT_EQ(on_path.full_height, 30u);
  EXPECT_EQ(on_path.seen_twice, 0.5);
  EXPECT_EQ(rendered.files.at("depth"), "/b");
  EXPECT_EQ(rendered.width, 4u);
  EXPECT_EQ(rendered.far, 2.5);
  EXPECT_EQ(rendered.seconds, 0.25);
  const Checked checked = MessageRoundTrip(Checked{"c", true, "fine", {{"f", "", "m"}}, {"w"}});
  EXPECT_TRUE(checked.ok);
  EXPECT_EQ(checked.summary, "fine");
  ASSERT_EQ(checked.problems.size(), 1u);
  EXPECT_EQ(checked.problems[0].message, "m");
  EXPECT_EQ(checked.warnings, std::vector<std::string>{"w"});
  EXPECT_EQ(checked.views, "");
  EXPECT_EQ(MessageRoundTrip(Checked{"c", true, "", {}, {}, "/o/views.json"}).views,
            "/o/views.json");
  const Refused refused = MessageRoundTrip(Refused{"r", "j", {StatusCode::kNotFound, "X", "m"}});
  EXPECT_EQ(refused.id, "r");
  EXPECT_EQ(refused.job, "j");
  EXPECT_EQ(refused.error.code, StatusCode::kNotFound);
}

// Bytes that JSON escapes to six characters each.
TEST(EngineMessageTest, LongListsAndNamesStillFitALine) {
  const std::string text(1000, '\x01');
  const std::vector<Problem> problems(1000, Problem{text, text, text});
  const std::vector<std::string> warnings(1000, text);
  const std::string huge(1 << 20, 'i');
  const Checked checked{"c", false, huge, problems, warnings};
  EXPECT_LE(ToLine(checked).size(), kMaxLineBytes);
  const Error error{StatusCode::kInternal, "r", huge};
  EXPECT_LE(ToLine(Failed{"j", error, problems}).size(), kMaxLineBytes);
  const Refused refused = MessageRoundTrip(Refused{huge, huge, error});
  EXPECT_EQ(refused.id, "");
  EXPECT_EQ(refused.job, "");
  Done done{"j", {}};
  done.test_views.assign(100'000, {text, 30});
  EXPECT_LE(ToLine(done).size(), kMaxLineBytes);
  done.test_views.assign(100'000, {"a", 30});
  EXPECT_EQ(MessageRoundTrip(done).test_views.size(), kMaxTestViewScores);
  const Checked read = MessageRoundTrip(checked);
  ASSERT_LT(read.problems.size(), problems.size());
  EXPECT_NE(read.problems.back().message.find("more problems"), std::string::npos);
}

TEST(EngineMessageTest, UnknownTypeIsUnimplemented) {
  EXPECT_THAT(ParseEngineMessage(R"({"type":"sing"})"),
              StatusIs(StatusCode::kUnimplemented, "sing"));
}

TEST(EngineMessageTest, UnknownCodeBecomesUnknown) {
  const auto message = ParseEngineMessage(R"({"type":"failed","job":"j","code":"OUCH"})");
  ASSERT_THAT(message, IsOk());
  EXPECT_EQ(std::get<Failed>(*message).error.code, StatusCode::kUnknown);
}

TEST(EngineMessageTest, WrongLinesAreRefusedWithTheirKey) {
  const std::vector<WrongLine> cases = WrongLines({
      {R"({"type":"progress","step":1})", "progress.job"},
      {R"({"type":"progress","job":"j"})", "progress.step"},
      {R"({"type":"progress","job":"j","step":-1})", "progress.step"},
      {R"({"type":"progress","job":"j","step":1.5})", "progress.step"},
      {R"({"type":"progress","job":"j","step":4294967296})", "step"},
      {R"({"type":"progress","job":"j","step":1,"samples":"1"})", "samples"},
      {R"({"type":"progress","job":{},"step":1})", "job"},
      {R"({"type":"started","job":"j","config":[],"scene":{}})", "config"},
      {R"({"type":"started","job":"j","scene":{}})", "config"},
      {R"({"type":"started","job":"j","config":{"budget":{"kind":"steps","amount":-1}}})",
       "amount"},
      {R"({"type":"checkpoint","job":"j","step":1,"checkpoint":"/c","model":"/m","tensors":[1]})",
       "tensors"},
      {R"({"type":"checkpoint","job":"j","step":1,"checkpoint":"/c","model":"/m",)"
       R"("tensors":[{"name":"a","dtype":"F16","shape":[-3]}]})",
       "shape"},
      {R"({"type":"checkpoint","job":"j","step":1,"checkpoint":"","model":"/m"})", "checkpoint"},
      {R"({"type":"failed","job":"j","code":"INTERNAL","problems":[{"file":1,"message":"m"}]})",
       "file"},
      {R"({"type":"failed","job":"j"})", "code"},
      {R"({"type":"working"})", "id"},
      {R"({"type":"rendered","id":"r","files":{"rgb":1},"width":1,"height":1})", "files"},
      {R"({"type":"rendered","id":"r","files":{},"width":1})", "height"},
      {R"({"type":"checked","id":"r","ok":"yes"})", "ok"},
  });
  for (const WrongLine& wrong : cases) {
    EXPECT_THAT(ParseEngineMessage(wrong.line), StatusIs(StatusCode::kInvalidArgument, wrong.words))
        << wrong.line.substr(0, 200);
  }
}

}  // namespace
}  // namespace nerf::protocol
