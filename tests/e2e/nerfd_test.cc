// The built nerfd: start, refused flags, shutdown, and what survives a restart.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "common/messages/blob_ref.h"
#include "common/rpc/blob_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "nerf/v1/job_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"
#include "nerf/v1/worker_service.grpc.pb.h"
#include "tests/e2e/nerfd_process.h"
#include "tests/e2e/owner_channel.h"
#include "tests/server/web/web_client.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tls_folder.h"

namespace nerf {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);

template <typename Stub, typename Request, typename Response>
absl::Status Call(Stub& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response, const std::string& token = "") {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  PrepareCall(kLong, token, &context);
  return FromGrpcStatus((stub.*method)(&context, request, response));
}

// Uploads one file, makes a scene of it and queues a job; returns the job's name.
std::string QueueJob(const std::string& address) {
  const auto channel = OwnerChannel(address);
  BlobClient blobs(channel, {});
  const v1::BlobRef blob = BlobOfBytes("{}");
  EXPECT_THAT(blobs.UploadBytes("{}", blob), IsOk());
  v1::CreateSceneRequest scene_request;
  auto* file = scene_request.mutable_scene()->add_files();
  file->set_path("transforms.json");
  *file->mutable_blob() = blob;
  v1::Scene scene;
  const auto scenes = v1::SceneService::NewStub(channel);
  EXPECT_THAT(Call(*scenes, &v1::SceneService::Stub::CreateScene, scene_request, &scene), IsOk());
  v1::CreateJobRequest job_request;
  job_request.mutable_job()->mutable_training()->set_scene(scene.name());
  v1::Job job;
  const auto jobs = v1::JobService::NewStub(channel);
  EXPECT_THAT(Call(*jobs, &v1::JobService::Stub::CreateJob, job_request, &job), IsOk());
  return job.name();
}

absl::StatusOr<v1::Job> GetJob(const std::string& address, const std::string& name) {
  const auto stub = v1::JobService::NewStub(OwnerChannel(address));
  v1::GetJobRequest request;
  request.set_name(name);
  v1::Job job;
  const absl::Status status = Call(*stub, &v1::JobService::Stub::GetJob, request, &job);
  if (!status.ok()) return status;
  return job;
}

class NerfdTest : public testing::Test {
 protected:
  // Starts nerfd without a worker and returns its exit code.
  int RunToEnd(std::vector<std::string> flags, std::string* errors,
               std::vector<std::string> environment = {}) {
    flags.push_back("--no-local-worker");
    NerfdProcess nerfd(dir_.path(), flags, environment);
    const auto code = nerfd.Wait(kLong);
    *errors = nerfd.errors();
    return code.value_or(-1);
  }
  TempDir dir_;
};

TEST_F(NerfdTest, SaysWhereItListensAndEndsCleanlyOnSigterm) {
  NerfdProcess nerfd(dir_.path(), {"--no-local-worker"});
  const std::string grpc_address = nerfd.WaitForAddress();
  ASSERT_NE(grpc_address, "") << nerfd.errors();
  const std::string metrics_address = nerfd.WaitForAddress("metrics");
  EXPECT_THAT(nerfd.output(), HasSubstr("grpc on " + grpc_address + "\n"));
  EXPECT_THAT(nerfd.output(), HasSubstr("metrics on http://" + metrics_address + "/metrics\n"));
  EXPECT_THAT(nerfd.output(), HasSubstr("data in " + dir_.path() + "\n"));
  EXPECT_THAT(grpc_address, testing::Not(testing::EndsWith(":0")));
  EXPECT_NE(QueueJob(grpc_address), "");
  nerfd.Kill(SIGTERM);
  EXPECT_EQ(nerfd.Wait(kLong), 0) << nerfd.errors();
  EXPECT_FALSE(std::filesystem::exists(dir_ / "nerfd.ports"));
}

TEST_F(NerfdTest, TokenIsMadeOnceIsSecretAndOpensTheWorkersDoor) {
  std::string token;
  for (int round = 0; round < 2; ++round) {
    NerfdProcess nerfd(dir_.path(), {"--no-local-worker"});
    const std::string address = nerfd.WaitForAddress();
    ASSERT_NE(address, "") << nerfd.errors();
    const absl::StatusOr<std::string> read = ReadTokenFile(dir_ / "worker.token");
    ASSERT_THAT(read, IsOk());
    if (round == 0) token = *read;
    EXPECT_EQ(*read, token);
    EXPECT_GE(token.size(), 32u);
    struct stat status {};
    ASSERT_EQ(stat((dir_ / "worker.token").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    const std::string admin = OwnerToken(address);
    EXPECT_GE(admin.size(), 32u);
    EXPECT_THAT(nerfd.errors() + nerfd.output(), testing::Not(HasSubstr(token)));
    EXPECT_THAT(nerfd.errors() + nerfd.output(), testing::Not(HasSubstr(admin)));
    const auto stub = v1::WorkerService::NewStub(MakeChannel({.address = address}));
    v1::CommitCheckpointResponse ignored;
    const auto commit = [&](const std::string& with) {
      return Call(*stub, &v1::WorkerService::Stub::CommitCheckpoint, v1::CommitCheckpointRequest(),
                  &ignored, with);
    };
    EXPECT_THAT(commit(""), StatusIs(absl::StatusCode::kUnauthenticated));
    EXPECT_THAT(commit("wrong"), StatusIs(absl::StatusCode::kUnauthenticated));
    EXPECT_THAT(commit(admin), StatusIs(absl::StatusCode::kPermissionDenied));
    EXPECT_THAT(commit(token), StatusIs(absl::StatusCode::kInvalidArgument));
    nerfd.Kill(SIGTERM);
    ASSERT_EQ(nerfd.Wait(kLong), 0);
  }
}

TEST_F(NerfdTest, TokenFilesThatWereDeletedAreMadeAnewAtTheNextStart) {
  std::string earlier;
  for (int round = 0; round < 2; ++round) {
    NerfdProcess nerfd(dir_.path(), {"--no-local-worker"});
    const std::string address = nerfd.WaitForAddress();
    ASSERT_NE(address, "") << nerfd.errors();
    const auto stub = v1::SceneService::NewStub(MakeChannel({.address = address}));
    v1::ListScenesResponse ignored;
    const auto list = [&](const std::string& with) {
      return Call(*stub, &v1::SceneService::Stub::ListScenes, v1::ListScenesRequest(), &ignored,
                  with);
    };
    const std::string token = OwnerToken(address);
    EXPECT_THAT(list(token), IsOk());
    EXPECT_THAT(list(earlier), StatusIs(absl::StatusCode::kUnauthenticated));  // none at first
    earlier = token;
    nerfd.Kill(SIGTERM);
    ASSERT_EQ(nerfd.Wait(kLong), 0);
    EXPECT_TRUE(std::filesystem::remove(dir_ / "admin.token"));
  }
}

TEST_F(NerfdTest, ChangesAreLoggedWithWhoMadeThem) {
  NerfdProcess nerfd(dir_.path(), {"--no-local-worker"});
  const std::string address = nerfd.WaitForAddress();
  ASSERT_NE(address, "") << nerfd.errors();
  const std::string job = QueueJob(address);
  ASSERT_THAT(GetJob(address, job), IsOk());
  EXPECT_THAT(nerfd.errors(),
              testing::ContainsRegex("change principal=admin.token "
                                     "method=nerf.v1.JobService/CreateJob .*code=OK"));
  EXPECT_THAT(nerfd.errors(), testing::Not(HasSubstr("JobService/Get")));
}

// Who, what, which, from where: also of what no project owns, and of a refusal.
TEST_F(NerfdTest, LogNamesWhatWasChangedAndWhoWasRefused) {
  NerfdProcess nerfd(dir_.path(), {"--no-local-worker"});
  const std::string address = nerfd.WaitForAddress();
  ASSERT_NE(address, "") << nerfd.errors();
  const auto stub = v1::AdminService::NewStub(MakeChannel({.address = address}));
  using Stub = v1::AdminService::Stub;
  const std::string admin = OwnerToken(address);
  v1::CreateTokenRequest wanted;
  wanted.mutable_token()->set_role(v1::Token::VIEWER);
  wanted.mutable_token()->set_project("projects/lab");
  v1::Token viewer;
  ASSERT_THAT(Call(*stub, &Stub::CreateToken, wanted, &viewer, admin), IsOk());
  v1::UpdateProjectRequest update;
  update.mutable_project()->set_name("projects/lab");
  update.mutable_project()->mutable_quota()->set_max_queued_jobs(3);
  update.mutable_update_mask()->add_paths("quota.max_queued_jobs");
  v1::Project project;
  ASSERT_THAT(Call(*stub, &Stub::UpdateProject, update, &project, admin), IsOk());
  EXPECT_THAT(Call(*stub, &Stub::UpdateProject, update, &project, viewer.secret()),
              StatusIs(absl::StatusCode::kPermissionDenied));
  const std::string web = nerfd.WaitForAddress("web");
  const WebAnswer refused = WebClient(std::stoi(web.substr(web.rfind(':') + 1)))
                                .Ask(HttpRequest("POST", "/nerf.v1.AdminService/BackupStore",
                                                 "Authorization: Bearer " + viewer.secret() +
                                                     "\r\nContent-Type: application/json\r\n",
                                                 "{}"));
  EXPECT_EQ(refused.status, 403);
  nerfd.Kill(SIGTERM);
  ASSERT_EQ(nerfd.Wait(kLong), 0);
  const std::string log = nerfd.errors();
  EXPECT_THAT(log, testing::ContainsRegex("CreateToken resource=\"projects/lab " + viewer.name() +
                                          "\" peer=ipv4:127.0.0.1:[0-9]+ code=OK"));
  EXPECT_THAT(log, testing::ContainsRegex("UpdateProject resource=projects/lab peer=ipv4:"));
  EXPECT_THAT(log,
              testing::ContainsRegex("call .*UpdateProject code=PERMISSION_DENIED .*principal=" +
                                     viewer.name() + " peer=ipv4:127.* refusal=.*role admin"));
  EXPECT_THAT(log, testing::ContainsRegex("BackupStore code=PERMISSION_DENIED .*principal=" +
                                          viewer.name() + " peer=web:127.0.0.1 "));
}

TEST_F(NerfdTest, WithTlsProgramsOfItsMachineUseItsSocketAndFiguresStayPlain) {
  const TlsFolder files;
  NerfdProcess nerfd(dir_.path(), {"--no-local-worker", "--tls-cert", files.Path("live/tls.pem"),
                                   "--tls-key", files.Path("live/tls.key")});
  const std::string address = nerfd.WaitForAddress();
  ASSERT_NE(address, "") << nerfd.errors();
  const std::string token = ReadTokenFile(dir_ / "admin.token").value_or("");
  const auto list = [&](const std::string& at) {
    const auto stub = v1::SceneService::NewStub(MakeChannel({.address = at}));
    v1::ListScenesResponse ignored;
    grpc::ClientContext context;
    PrepareCall(kLong, token, &context);
    return FromGrpcStatus(stub->ListScenes(&context, {}, &ignored));
  };
  EXPECT_THAT(list("unix:" + (dir_ / "nerfd.sock")), IsOk());
  EXPECT_THAT(list(address), StatusIs(absl::StatusCode::kUnavailable)) << "plaintext";
  const std::string metrics = nerfd.WaitForAddress("metrics");
  const WebAnswer figures = WebClient(std::stoi(metrics.substr(metrics.rfind(':') + 1)))
                                .Ask(HttpRequest("GET", "/metrics"));
  EXPECT_EQ(figures.status, 200);
  EXPECT_THAT(figures.body, HasSubstr("nerfd_"));
  EXPECT_THAT(figures.body, testing::Not(HasSubstr(token)));
}

TEST_F(NerfdTest, BeyondLoopbackIsRefusedWithoutInsecure) {
  std::string errors;
  EXPECT_EQ(RunToEnd({"--listen", "0.0.0.0:0"}, &errors), 2);
  EXPECT_THAT(errors, HasSubstr("--insecure"));
  EXPECT_EQ(RunToEnd({"--metrics-listen", "[::]:0"}, &errors), 2);
  EXPECT_THAT(errors, HasSubstr("--metrics-listen"));
  EXPECT_EQ(RunToEnd({}, &errors, {"NERFD_LEASE_TTL=soon"}), 2);
  NerfdProcess open(dir_.path(), {"--no-local-worker", "--listen", "0.0.0.0:0", "--insecure"});
  EXPECT_NE(open.WaitForAddress(), "") << open.errors();
}

TEST_F(NerfdTest, ServesThePageAndCallsFromBrowsers) {
  NerfdProcess nerfd(dir_.path(),
                     {"--no-local-worker", "--web-origin", "https://nerf.example.com"});
  const std::string address = nerfd.WaitForAddress("web");
  ASSERT_NE(address, "") << nerfd.errors();
  EXPECT_THAT(nerfd.output(), HasSubstr("page on http://" + address + "/\n"));
  EXPECT_THAT(nerfd.output(), HasSubstr("shares open on https://nerf.example.com/\n"));
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  const std::string job = QueueJob(nerfd.WaitForAddress());

  EXPECT_THAT(WebClient(port).Ask(HttpRequest("GET", "/")).body, HasSubstr("<!doctype html>"));
  const std::string bearer = "Authorization: Bearer " + OwnerToken(nerfd.WaitForAddress()) + "\r\n";
  const auto call = [&](const std::string& name, const std::string& headers = "") {
    return WebClient(port).Ask(HttpRequest("POST", "/nerf.v1.JobService/GetJob",
                                           "Content-Type: application/json\r\n" + bearer + headers,
                                           "{\"name\":\"" + name + "\"}"));
  };
  EXPECT_EQ(nlohmann::json::parse(call(job).body)["state"], "QUEUED");
  EXPECT_EQ(WebClient(port)
                .Ask(HttpRequest("POST", "/nerf.v1.JobService/GetJob",
                                 "Content-Type: application/json\r\n", "{}"))
                .status,
            401);
  EXPECT_EQ(nlohmann::json::parse(call("none").body)["code"], "invalid_argument");
  EXPECT_EQ(call(job, "Connect-Timeout-Ms: 0\r\n").status, 504);
  EXPECT_EQ(call(job, "Origin: https://nerf.example.com\r\n").status, 200);
  EXPECT_EQ(call(job, "Origin: https://attacker.example\r\n").status, 403);

  // A stream stays open after its first message, and ends with a message when the server shuts
  // down.
  WebClient watch(port);
  const std::string message = "{\"name\":\"" + job + "\"}";
  watch.Send(HttpRequest("POST", "/nerf.v1.JobService/WatchJob",
                         "Content-Type: application/connect+json\r\n" + bearer,
                         std::string("\0\0\0\0", 4) + static_cast<char>(message.size()) + message));
  EXPECT_EQ(watch.ReadHead().status, 200);
  std::string frame, last;
  ASSERT_TRUE(watch.ReadChunk(&frame));
  EXPECT_THAT(frame, HasSubstr("SNAPSHOT"));
  nerfd.Kill(SIGTERM);
  while (watch.ReadChunk(&frame) && !frame.empty()) last = frame;
  EXPECT_THAT(last, HasSubstr("\"code\":\"unavailable\""));
  EXPECT_EQ(nerfd.Wait(kLong), 0) << nerfd.errors();
}

TEST_F(NerfdTest, WithoutAWebAddressThereIsNoWebServer) {
  NerfdProcess nerfd(dir_.path(), {"--no-local-worker", "--web-listen", "none"});
  ASSERT_NE(nerfd.WaitForAddress(), "") << nerfd.errors();
  EXPECT_EQ(nerfd.WaitForAddress("web"), "");
  EXPECT_THAT(nerfd.output(), testing::Not(HasSubstr("page on")));
}

TEST_F(NerfdTest, BadFlagsAreUsageErrorsThatNameTheFlag) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--listen", "nowhere"}, "--listen"},
      {{"--listen", "127.0.0.1:99999"}, "--listen"},
      {{"--web-listen", "8080"}, "--web-listen"},
      {{"--web-origin", "*"}, "--web-origin"},
      {{"--lease-ttl", "soon"}, "--lease-ttl"},
      {{"--lease-ttl", "-5s"}, "--lease-ttl"},
      {{"--checkpoint-interval", "0"}, "--checkpoint-interval"},
      {{"--log-level", "loud"}, "loud"},
      {{"--log-level", "wraning"}, "did you mean warning?"},
      {{"--frobnicate"}, "no such flag: '--frobnicate'\n"},
      {{"serve"}, "nerfd takes flags alone: leave out 'serve'\n"},
      {{"--lisen", "127.0.0.1:0"}, "no such flag: '--lisen'; did you mean --listen?"},
  };
  for (const auto& [flags, word] : cases) {
    std::string errors;
    EXPECT_EQ(RunToEnd(flags, &errors), 2) << word;
    EXPECT_THAT(errors, HasSubstr(word));
  }
}

TEST_F(NerfdTest, SecondServerOnTheSameFolderOrPortIsRefused) {
  NerfdProcess first(dir_.path(), {"--no-local-worker"});
  const std::string address = first.WaitForAddress();
  ASSERT_NE(address, "") << first.errors();
  TempDir logs;
  {
    // The folder holds the files of the first nerfd, so only the exit code is checked.
    std::vector<std::string> flags = {"--no-local-worker", "--data-dir", dir_.path()};
    NerfdProcess second(logs.path(), flags);
    EXPECT_EQ(second.Wait(kLong), 7);
    EXPECT_THAT(second.errors(), HasSubstr(dir_.path()));
  }
  {
    NerfdProcess second(logs.path(), {"--no-local-worker", "--listen", address});
    EXPECT_EQ(second.Wait(kLong), 7);
    EXPECT_EQ(second.errors(), "nerfd: cannot listen on " + address +
                                   ": the address is in use or not one of this machine's\n");
  }
  EXPECT_NE(QueueJob(address), "") << "the first one must not have noticed";
}

TEST_F(NerfdTest, JobsOutliveSigtermAndKill) {
  std::vector<std::string> jobs;
  for (int round = 0; round < 4; ++round) {
    NerfdProcess nerfd(dir_.path(), {"--no-local-worker"});
    const std::string address = nerfd.WaitForAddress();
    ASSERT_NE(address, "") << nerfd.errors();
    for (const std::string& name : jobs) {
      const auto job = GetJob(address, name);
      ASSERT_THAT(job, IsOk());
      EXPECT_EQ(job->state(), v1::Job::QUEUED);
    }
    jobs.push_back(QueueJob(address));
    nerfd.Kill(round % 2 == 0 ? SIGKILL : SIGTERM);
    ASSERT_TRUE(nerfd.Wait(kLong).has_value());
  }
  EXPECT_EQ(jobs.size(), 4u);
}

TEST_F(NerfdTest, HealthAnswersServingOverTheWire) {
  NerfdProcess nerfd(dir_.path(), {"--no-local-worker"});
  const std::string address = nerfd.WaitForAddress();
  ASSERT_NE(address, "") << nerfd.errors();
  // grpc.health.v1.HealthCheckRequest{service = 1}, HealthCheckResponse{status = 1}, SERVING = 1.
  const auto channel = MakeChannel({.address = address});
  grpc::ClientContext context;
  PrepareCall(kLong, "", &context);
  grpc::CompletionQueue queue;
  const std::string service = "nerf.v1.JobService";
  const grpc::Slice bytes_of_request("\x0a" + std::string(1, static_cast<char>(service.size())) +
                                     service);
  const grpc::ByteBuffer request(&bytes_of_request, 1);
  const auto check = [&] {
    auto stub =
        std::make_unique<grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>>(channel);
    auto call = stub->PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<grpc::Slice> slices;
    response.Dump(&slices);
    std::string bytes;
    for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
    return bytes;
  };
  EXPECT_EQ(check(), std::string("\x08\x01", 2));
}

// No fake replaces the worker here. Whether it is built or not, nerfd must serve and end.
TEST_F(NerfdTest, ServesAndEndsWhateverBecomesOfTheLocalWorker) {
  NerfdProcess nerfd(dir_.path(), {});
  const std::string address = nerfd.WaitForAddress();
  ASSERT_NE(address, "") << nerfd.errors();
  EXPECT_NE(QueueJob(address), "");
  nerfd.Kill(SIGTERM);
  EXPECT_EQ(nerfd.Wait(absl::Seconds(40)), 0) << nerfd.errors();
}

}  // namespace
}  // namespace nerf
