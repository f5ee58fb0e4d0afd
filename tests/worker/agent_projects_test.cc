// Which engine works for which project.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
#include "tests/testing/status_matchers.h"
#include "tests/worker/scripted_agent.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using EngineState = std::shared_ptr<ScriptedEngines::State>;

class AgentProjectsTest : public AgentTest {
 protected:
  // Has a model of the project rendered. Returns the engine's id of the request.
  std::string Render(const std::string& project) {
    v1::SynchronizeResponse message;
    message.mutable_request()->set_request_id("q" + std::to_string(++n_requests_));
    message.mutable_request()->set_project(project);
    v1::RenderTask* task = message.mutable_request()->mutable_render();
    *task->mutable_file() = server_.AddBlob("model of " + project);
    task->mutable_view()->mutable_orbit()->set_count(8);
    Send(message);
    return "r" + std::to_string(n_requests_);
  }
  void Refuse(const std::string& id, const EngineState& engine) {
    ScriptedEngines::Say(Refusal(id, absl::InternalError("no")), *engine);
    Settle();
  }
  bool WasAsked(const std::string& id, const EngineState& engine) const {
    return std::any_of(engine->sent.begin(), engine->sent.end(), [&](const WorkerRequest& request) {
      return request.has_render() && request.id() == id;
    });
  }
  v1::SynchronizeResponse GrantOf(const std::string& project, uint64_t epoch = 1) {
    v1::SynchronizeResponse message = Grant(server_, epoch);
    message.mutable_desired_job()->set_job("projects/" + project + "/jobs/j-1");
    return message;
  }
  std::vector<v1::WorkerReply> Replies() const {
    std::vector<v1::WorkerReply> replies;
    for (const auto& message : server_.messages()) {
      if (message.has_reply()) replies.push_back(message.reply());
    }
    return replies;
  }

  int n_requests_ = 0;
};

TEST_F(AgentProjectsTest, RequestsOfOneProjectShareAWarmEngine) {
  Start();
  for (int i = 0; i < 3; ++i) {
    Refuse(Render("a"), engines_.engine);
    Pass(absl::Minutes(10));
  }
  EXPECT_EQ(engines_.launches, 1);
  EXPECT_THAT(Replies(), SizeIs(3));
}

TEST_F(AgentProjectsTest, RequestOfAnotherProjectGetsItsOwnEngineBesideTheJob) {
  StartTraining();
  const EngineState trains = engines_.engine;
  const std::string id = Render("other");
  EXPECT_EQ(engines_.launches, 2);
  EXPECT_TRUE(trains->alive);
  EXPECT_FALSE(ScriptedEngines::Got(WorkerRequest::kRender, *trains).has_render());
  EXPECT_TRUE(WasAsked(id, engines_.engine));
  EXPECT_NE(engines_.engine->access.write_paths, trains->access.write_paths);
  EXPECT_NE(engines_.engine->access.read_paths, trains->access.read_paths);
  // Requests of the job's project are still the job's engine's.
  EXPECT_TRUE(WasAsked(Render("default"), trains));
  EXPECT_EQ(engines_.launches, 2);
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  EXPECT_EQ(server_.messages().back().metrics().engine_restarts(), 0u);
}

TEST_F(AgentProjectsTest, DeathOfAnotherProjectsEngineIsNoCrashOfTheJob) {
  StartTraining();
  Render("other");
  engines_.Die({EngineExit::Kind::kSignal, 11});
  Settle();
  ASSERT_THAT(Replies(), SizeIs(1));
  EXPECT_THAT(FromRpcStatus(Replies()[0].error()),
              FailsWith(absl::StatusCode::kUnavailable, reason::kWorkerLost));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
}

TEST_F(AgentProjectsTest, LiveViewGoesOnBesideTheStillOfAnotherProject) {
  Start();
  const std::string frame = Render("a");
  const EngineState view = engines_.engine;
  const std::string still = Render("b");
  EXPECT_EQ(engines_.launches, 2);
  EXPECT_TRUE(view->alive);
  EXPECT_TRUE(WasAsked(still, engines_.engine));
  Refuse(frame, view);
  EXPECT_TRUE(WasAsked(Render("a"), view));
}

TEST_F(AgentProjectsTest, ThirdProjectWaitsForATurnAndHandsItBack) {
  StartTraining();
  const std::string first = Render("a");
  const EngineState of_a = engines_.engine;
  Render("b");
  Pass(absl::Seconds(4));
  EXPECT_TRUE(WasAsked(Render("a"), of_a)) << "its turn lasts 5 s";
  Pass(absl::Seconds(2));
  const std::string later = Render("a");
  EXPECT_FALSE(WasAsked(later, of_a)) << "b has waited";
  EXPECT_EQ(engines_.launches, 2) << "what was asked is answered first";
  Refuse(first, of_a);
  EXPECT_TRUE(of_a->alive);
  Refuse("r3", of_a);
  EXPECT_FALSE(of_a->alive);
  const EngineState of_b = engines_.engine;
  EXPECT_EQ(engines_.launches, 3);
  EXPECT_TRUE(WasAsked("r2", of_b));
  Pass(absl::Seconds(6));
  EXPECT_TRUE(of_b->alive);
  Refuse("r2", of_b);
  EXPECT_FALSE(of_b->alive);
  EXPECT_TRUE(WasAsked(later, engines_.engine));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
}

TEST_F(AgentProjectsTest, QuietEngineIsGivenToAnotherProjectAtOnce) {
  StartTraining();
  Refuse(Render("a"), engines_.engine);
  const EngineState of_a = engines_.engine;
  Pass(absl::Seconds(1));
  EXPECT_TRUE(WasAsked(Render("b"), engines_.engine));
  EXPECT_FALSE(of_a->alive);
  EXPECT_EQ(engines_.launches, 3);
}

TEST_F(AgentProjectsTest, SecondEngineEndsWhenNobodyAsksIt) {
  StartTraining();
  Refuse(Render("a"), engines_.engine);
  const EngineState of_a = engines_.engine;
  Pass(absl::Seconds(59));
  EXPECT_TRUE(of_a->alive);
  Pass(absl::Seconds(2));
  EXPECT_FALSE(of_a->alive);
  EXPECT_TRUE(WasAsked(Render("a"), engines_.engine));
  EXPECT_EQ(engines_.launches, 3);
}

TEST_F(AgentProjectsTest, JobTakesTheEngineOfItsProject) {
  StartTraining();
  const EngineState of_default = engines_.engine;
  Refuse(Render("other"), engines_.engine);
  const EngineState of_other = engines_.engine;
  engines_.engine = of_default;
  SayCheckpoint(30);
  SayDone();
  Send(Acknowledge());
  Send(GrantOf("other"));
  EXPECT_EQ(ScriptedEngines::Got(WorkerRequest::kTrain, *of_other).job(),
            "projects/other/jobs/j-1@1");
  EXPECT_EQ(engines_.launches, 2);
  EXPECT_TRUE(WasAsked(Render("default"), of_default)) << "now the second one";
}

TEST_F(AgentProjectsTest, JobWaitsForNoRequestOfAnotherProject) {
  Start();
  const std::string frame = Render("a");
  const EngineState view = engines_.engine;
  Send(GrantOf("b"));
  EXPECT_TRUE(view->alive);
  EXPECT_EQ(engines_.Got(WorkerRequest::kTrain).job(), "projects/b/jobs/j-1@1");
  Refuse(frame, view);
  EXPECT_TRUE(WasAsked(Render("a"), view));
}

TEST_F(AgentProjectsTest, EngineThatStartsForAJobIsNotGivenToARequest) {
  Start();
  Render("a");
  const EngineState of_a = engines_.engine;
  engines_.hello = false;
  Send(GrantOf("b"));
  const EngineState of_b = engines_.engine;
  ASSERT_EQ(engines_.launches, 2);
  Render("c");
  Pass(absl::Seconds(2));
  EXPECT_TRUE(of_b->alive) << "the job waits for its hello";
  EXPECT_TRUE(of_a->alive) << "it has not answered";
  ScriptedEngines::Say(HelloOf("d"), *of_b);
  Settle();
  EXPECT_EQ(ScriptedEngines::Got(WorkerRequest::kTrain, *of_b).job(), "projects/b/jobs/j-1@1");
  EXPECT_EQ(engines_.launches, 2);
}

TEST_F(AgentProjectsTest, RequestsThatNameNoProjectAreOneProject) {
  StartTraining();
  Render("");
  EXPECT_EQ(engines_.launches, 2) << "not the job's";
  EXPECT_TRUE(WasAsked(Render(""), engines_.engine));
  EXPECT_EQ(engines_.launches, 2);
}

TEST_F(AgentProjectsTest, EngineAnswersForItsOwnProjectAlone) {
  StartTraining();
  const EngineState trains = engines_.engine;
  const std::string own = Render("default"), foreign = Render("other");
  const EngineState hostile = engines_.engine;
  EngineMessage checked = AnswerTo(own);
  checked.mutable_checked()->mutable_response()->set_ok(true);
  EngineMessage rank_text = AboutJob(Key());
  rank_text.mutable_rank_text()->set_text("t");
  EngineMessage with_both = StoppedAt(Key(), 7);
  with_both.set_id(own);
  for (const EngineMessage& message : std::vector<EngineMessage>{
           Refusal(own, absl::InternalError("no")), Refusal(own, absl::InternalError("no"), Key()),
           Refusal("", absl::InternalError("no"), Key()), RenderedTo(own, {}), checked,
           Failure(Key(), absl::InternalError("m")), StoppedAt(Key(), 7), rank_text, with_both,
           ProgressAt(20)}) {
    ScriptedEngines::Say(message, *hostile);
    Settle();
  }
  EXPECT_THAT(Replies(), IsEmpty());
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  EXPECT_EQ(server_.last_report()->progress().step(), 0u);
  for (const auto& message : server_.messages()) {
    EXPECT_EQ(message.metrics().train_steps(), 0u);
  }
  Refuse(foreign, hostile);
  Refuse(own, trains);
  EXPECT_THAT(Replies(), SizeIs(2));
}

TEST_F(AgentProjectsTest, SecondEngineThatDoesNotStartCostsItsRequestsAlone) {
  StartTraining();
  engines_.broken = true;
  Render("other");
  for (int i = 0; i < 10 && Replies().empty(); ++i) Pass(absl::Seconds(5));
  ASSERT_THAT(Replies(), SizeIs(1));
  EXPECT_THAT(FromRpcStatus(Replies()[0].error()),
              FailsWith(absl::StatusCode::kUnavailable, reason::kWorkerLost));
  EXPECT_FALSE(agent_->result().has_value());
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  engines_.broken = false;
  EXPECT_TRUE(WasAsked(Render("other"), engines_.engine));
}

TEST_F(AgentProjectsTest, EngineForJobsThatDoesNotStartCostsTheJobAlone) {
  StartTraining();
  const EngineState trains = engines_.engine;
  Refuse(Render("other"), engines_.engine);
  const EngineState shows = engines_.engine;
  engines_.broken = true;
  trains->events.push_back({"", EngineExit{EngineExit::Kind::kSignal, 11}});
  trains->on_readable();
  Settle();
  ASSERT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  const std::string waits = Render("default");
  Send(Acknowledge());
  for (int i = 0; i < 8; ++i) {
    Pass(absl::Seconds(5));
    ASSERT_FALSE(agent_->result().has_value());
    const std::string id = Render("other");  // a frame of a live view
    EXPECT_TRUE(WasAsked(id, shows));
    Refuse(id, shows);
  }
  ASSERT_THAT(Replies(), SizeIs(10));
  int n_lost = 0;
  for (const v1::WorkerReply& reply : Replies()) {
    if (reply.error().message().find("does not start here: run nowhere") != std::string::npos) {
      ++n_lost;
    }
  }
  EXPECT_EQ(n_lost, 1) << "the render that waited for the job's engine";
  EXPECT_FALSE(WasAsked(waits, shows)) << "its project has another room";

  // The engine that is left takes the next job of its project.
  Send(GrantOf("other", 2));
  EXPECT_TRUE(ScriptedEngines::Got(WorkerRequest::kTrain, *shows).has_train());
}

TEST_F(AgentProjectsTest, WorkerEndsWhenItsLastEngineDoesNotStart) {
  StartTraining();
  const EngineState trains = engines_.engine;
  Refuse(Render("other"), engines_.engine);
  const EngineState shows = engines_.engine;
  engines_.broken = true;
  for (const EngineState& engine : {trains, shows}) {
    engine->events.push_back({"", EngineExit{EngineExit::Kind::kSignal, 11}});
    engine->on_readable();
    Settle();
  }
  Send(Acknowledge());
  for (int i = 0; i < 20 && !agent_->result().has_value(); ++i) Pass(absl::Seconds(5));
  ASSERT_TRUE(agent_->result().has_value());
  EXPECT_EQ(agent_->result()->message, "the engine does not start: run /nowhere: no such file");
}

TEST_F(AgentProjectsTest, RoomGoesWithTheLastUseOfItsProject) {
  StartTraining();
  Refuse(Render("a"), engines_.engine);
  const std::string room = fs::path(engines_.engine->access.read_paths[0]).parent_path();
  EXPECT_TRUE(fs::exists(room + "/requests"));
  std::ofstream(room + "/requests/left-behind") << "x";
  Pass(absl::Seconds(2));
  Render("b");
  Settle();
  EXPECT_FALSE(fs::exists(room));
  EXPECT_TRUE(fs::exists(Room()));
}

}  // namespace
}  // namespace nerf
