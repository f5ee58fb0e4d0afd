// Every RPC with requests of careless or malicious clients. Each gets its code, its reason and a
// message that names the problem, and changes nothing.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/messages/blob_ref.h"
#include "common/rpc/metadata.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

constexpr char kSha[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kHostileRequestsUuid[] = "0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f";
constexpr char kView[] = "orbit{count:8} width:32 height:32";
constexpr char kCamera[] =
    "camera{width:8 height:8 fl_x:10 transform_matrix:[1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1]}";

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

struct HostileCase {
  std::string method;   // of the table in Send
  std::string request;  // text format; $SHA, $UUID, $VIEW, $CAMERA, $BIG are replaced
  StatusCode code;
  std::string_view reason;
  std::vector<std::string> words;  // in the field names and texts of the violations, or the message
};

std::string Expand(const std::string& text) {
  const std::string big(200, 'x');
  return absl::StrReplaceAll(text, {{"$SHA", kSha},
                                    {"$UUID", kHostileRequestsUuid},
                                    {"$VIEW", kView},
                                    {"$CAMERA", kCamera},
                                    {"$BIG", big}});
}

class HostileRequestsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new RpcTestServer();
    const auto nobody = [](const std::string& /*worker*/) { return false; };
    const auto now = [](const std::function<void()>& store) { store(); };
    ASSERT_TRUE(server_->worker_keys->CheckOrBind("w", "key", nobody, now).ok());
    server_->CreateScene("lego");
    server_->CreateJob("projects/default/scenes/lego", "queued");
    const v1::Job done = server_->CreateJob("projects/default/scenes/lego", "done");
    ASSERT_THAT(server_->CancelJob(done.name()), IsOk());
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  template <typename Stub, typename Request, typename Response>
  static absl::Status Unary(Stub& stub,
                            grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Response*),
                            const std::string& text, const std::string& token = "") {
    Response response;
    return RpcTestServer::Call(stub, method, Parse<Request>(text), &response, token);
  }

  static absl::Status Write(const std::string& text) {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), "", &context);
    google::bytestream::WriteResponse response;
    const auto writer = server_->bytes_stub->Write(&context, &response);
    for (const auto piece : absl::StrSplit(text, "---", absl::SkipWhitespace())) {
      if (!writer->Write(Parse<google::bytestream::WriteRequest>(std::string(piece)))) break;
    }
    writer->WritesDone();
    return FromGrpcStatus(writer->Finish());
  }

  static absl::Status Read(const std::string& text) {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), "", &context);
    const auto reader =
        server_->bytes_stub->Read(&context, Parse<google::bytestream::ReadRequest>(text));
    google::bytestream::ReadResponse response;
    while (reader->Read(&response)) {
    }
    return FromGrpcStatus(reader->Finish());
  }

  static absl::Status Watch(const std::string& text) {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), "", &context);
    const auto reader = server_->job_stub->WatchJob(&context, Parse<v1::WatchJobRequest>(text));
    v1::WatchJobResponse response;
    while (reader->Read(&response)) {
    }
    return FromGrpcStatus(reader->Finish());
  }

  static absl::Status Commit(const std::string& text, const std::string& token,
                             const std::string& key) {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), token, &context);
    context.AddMetadata(kWorkerKeyMetadata, key);
    v1::CommitCheckpointResponse response;
    return FromGrpcStatus(
        v1::WorkerService::NewStub(server_->bare_channel)
            ->CommitCheckpoint(&context, Parse<v1::CommitCheckpointRequest>(text), &response));
  }

  static absl::Status Synchronize(const std::string& text, const std::string& token,
                                  const std::string& key = "key") {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), token, &context);
    context.AddMetadata(kWorkerKeyMetadata, key);
    const auto stub = v1::WorkerService::NewStub(server_->bare_channel);
    const auto stream = stub->Synchronize(&context);
    stream->Write(Parse<v1::SynchronizeRequest>(text));
    stream->WritesDone();
    v1::SynchronizeResponse response;
    while (stream->Read(&response)) {
    }
    return FromGrpcStatus(stream->Finish());
  }

  static absl::Status Send(const std::string& method, const std::string& text) {
    RpcTestServer& s = *server_;
    const std::map<std::string, std::function<absl::Status()>> calls = {
        {"CreateScene",
         [&] { return Unary(*s.scene_stub, &v1::SceneService::Stub::CreateScene, text); }},
        {"GetScene", [&] { return Unary(*s.scene_stub, &v1::SceneService::Stub::GetScene, text); }},
        {"ListScenes",
         [&] { return Unary(*s.scene_stub, &v1::SceneService::Stub::ListScenes, text); }},
        {"DeleteScene",
         [&] { return Unary(*s.scene_stub, &v1::SceneService::Stub::DeleteScene, text); }},
        {"ValidateScene",
         [&] { return Unary(*s.scene_stub, &v1::SceneService::Stub::ValidateScene, text); }},
        {"FindMissingBlobs",
         [&] { return Unary(*s.blob_stub, &v1::BlobService::Stub::FindMissingBlobs, text); }},
        {"CheckBlob", [&] { return Unary(*s.blob_stub, &v1::BlobService::Stub::CheckBlob, text); }},
        {"SignBlobUrl",
         [&] { return Unary(*s.blob_stub, &v1::BlobService::Stub::SignBlobUrl, text); }},
        {"CreateJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::CreateJob, text); }},
        {"GetJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::GetJob, text); }},
        {"ListJobs", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::ListJobs, text); }},
        {"CancelJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::CancelJob, text); }},
        {"DeleteJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::DeleteJob, text); }},
        {"UpdateJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::UpdateJob, text); }},
        {"PauseJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::PauseJob, text); }},
        {"ResumeJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::ResumeJob, text); }},
        {"RetryJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::RetryJob, text); }},
        {"ExtendJob", [&] { return Unary(*s.job_stub, &v1::JobService::Stub::ExtendJob, text); }},
        {"ListCheckpoints",
         [&] { return Unary(*s.model_stub, &v1::ModelService::Stub::ListCheckpoints, text); }},
        {"PromoteCheckpoint",
         [&] { return Unary(*s.model_stub, &v1::ModelService::Stub::PromoteCheckpoint, text); }},
        {"GetModel", [&] { return Unary(*s.model_stub, &v1::ModelService::Stub::GetModel, text); }},
        {"ListModels",
         [&] { return Unary(*s.model_stub, &v1::ModelService::Stub::ListModels, text); }},
        {"UpdateModel",
         [&] { return Unary(*s.model_stub, &v1::ModelService::Stub::UpdateModel, text); }},
        {"DeleteModel",
         [&] { return Unary(*s.model_stub, &v1::ModelService::Stub::DeleteModel, text); }},
        {"RenderImage",
         [&] { return Unary(*s.render_stub, &v1::RenderService::Stub::RenderImage, text); }},
        {"ListWorkers",
         [&] { return Unary(*s.admin_stub, &v1::AdminService::Stub::ListWorkers, text); }},
        {"CommitCheckpoint", [&] { return Commit(text, kToken, "key"); }},
        {"CommitCheckpoint without token", [&] { return Commit(text, "", "key"); }},
        {"CommitCheckpoint with wrong token", [&] { return Commit(text, "guess", "key"); }},
        {"CommitCheckpoint with another's key", [&] { return Commit(text, kToken, "guess"); }},
        {"Synchronize with another's key", [&] { return Synchronize(text, kToken, "guess"); }},
        {"QueryWriteStatus",
         [&] {
           return Unary(*s.bytes_stub, &google::bytestream::ByteStream::Stub::QueryWriteStatus,
                        text);
         }},
        {"Read", [&] { return Read(text); }},
        {"Write", [&] { return Write(text); }},
        {"WatchJob", [&] { return Watch(text); }},
        {"Synchronize", [&] { return Synchronize(text, kToken); }},
        {"Synchronize without token", [&] { return Synchronize(text, ""); }},
        {"Synchronize with wrong token", [&] { return Synchronize(text, kToken + "x"); }},
    };
    return calls.at(method)();
  }

  static inline const std::string kToken = RpcTestServer::kToken;
  static RpcTestServer* server_;
};
RpcTestServer* HostileRequestsTest::server_ = nullptr;

const HostileCase kSceneCases[] = {
    {"CreateScene", "", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"files"}},
    {"CreateScene",
     "parent:'projects/No' scene_id:'-a' request_id:'1' scene{display_name:'$BIG' "
     "files{path:'../x' blob{sha256:'$SHA'}} files{path:'ok' blob{sha256:'zz'}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"parent", "scene_id", "request_id", "scene.display_name", "scene.files[0].path",
      "scene.files[1].blob"}},
    {"CreateScene",
     "scene{files{path:'/etc/passwd' blob{sha256:'$SHA'}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"scene.files[0].path"}},
    {"CreateScene",
     "scene{files{path:'a' blob{sha256:'$SHA'}} files{path:'a' blob{sha256:'$SHA'}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"scene.files[1].path"}},
    {"CreateScene",
     "scene{files{path:'a' blob{sha256:'$SHA' size_bytes:-1}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"scene.files[0].blob"}},
    {"CreateScene",
     "scene{files{path:'a' blob{sha256:'$SHA' size_bytes:nan}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"scene.files[0].blob"}},
    {"CreateScene",
     "scene{files{path:'a' blob{sha256:'$SHA' size_bytes:17}}}",
     StatusCode::kFailedPrecondition,
     reason::kBlobsMissing,
     {"blobs/$SHA/17"}},
    {"GetScene", "name:'lego'", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"name"}},
    {"GetScene",
     "name:'projects/default/scenes/..'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"name"}},
    {"GetScene",
     "name:'projects/default/scenes/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"projects/default/scenes/no"}},
    {"GetScene",
     "name:'projects/other/scenes/lego'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"projects/other/scenes/lego"}},
    {"ListScenes",
     "page_size:-1",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"page_size"}},
    {"ListScenes",
     "page_token:'garbage'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"page_token"}},
    {"ListScenes",
     "parent:'lego' page_size:-7",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"parent", "page_size"}},
    {"DeleteScene",
     "name:'projects/default/scenes/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
    {"DeleteScene",
     "name:'projects/default/scenes/lego'",
     StatusCode::kFailedPrecondition,
     reason::kStateConflict,
     {"lego"}},
    {"ValidateScene",
     "name:'projects/default/scenes/lego'",
     StatusCode::kUnavailable,
     reason::kNoWorker,
     {"no worker"}},
    {"ValidateScene", "name:''", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"name"}},
};

const HostileCase kBlobCases[] = {
    {"FindMissingBlobs",
     "blobs{sha256:'$SHA' size_bytes:0.5} blobs{sha256:'E3'}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"blobs[0]", "blobs[1]"}},
    {"CheckBlob",
     "blob{sha256:'../../etc/passwd' size_bytes:-1}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"blob.sha256", "blob.size_bytes"}},
    {"CheckBlob",
     "blob{sha256:'$SHA' size_bytes:99}",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"$SHA"}},
    {"SignBlobUrl",
     "blob{sha256:'../../etc/passwd' size_bytes:1}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"blob.sha256"}},
    {"Read",
     "resource_name:'blobs/../../etc/passwd'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"resource_name"}},
    {"Read",
     "resource_name:'blobs/$SHA/0x10'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"resource_name"}},
    {"Read",
     "resource_name:'blobs/$SHA/99'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"$SHA"}},
    {"Read",
     "resource_name:'blobs/$SHA/99' read_limit:-1",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"read_limit"}},
    {"Read",
     "resource_name:'$PRESENT' read_offset:3",
     StatusCode::kOutOfRange,
     reason::kOffsetOutOfRange,
     {}},
    {"Read",
     "resource_name:'$PRESENT' read_offset:-1",
     StatusCode::kOutOfRange,
     reason::kOffsetOutOfRange,
     {}},
    {"QueryWriteStatus",
     "resource_name:'uploads/1/blobs/$SHA/0'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"resource_name"}},
    {"Write", "", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"resource_name"}},
    {"Write", "data:'abc'", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"resource_name"}},
    {"Write",
     "resource_name:'uploads/$UUID/blobs/$SHA/-1'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"resource_name"}},
    {"Write",
     "resource_name:'uploads/$UUID/blobs/$SHA/3' write_offset:-1",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"write_offset"}},
    {"Write",
     "resource_name:'uploads/$UUID/blobs/$SHA/3' write_offset:2 data:'c'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"offset"}},
    {"Write",
     "resource_name:'uploads/$UUID/blobs/$SHA/3' data:'abcd'",
     StatusCode::kResourceExhausted,
     reason::kSizeLimit,
     {}},
    {"Write",
     "resource_name:'uploads/$UUID/blobs/$SHA/3' data:'abc' finish_write:true",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"$SHA"}},
    {"Write",
     "resource_name:'uploads/$UUID/blobs/$SHA/3' data:'a' --- "
     "resource_name:'uploads/$UUID/blobs/$SHA/4' write_offset:1 data:'b'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"resource_name"}},
};

const HostileCase kJobCases[] = {
    {"CreateJob", "", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"job.spec"}},
    {"CreateJob",
     "job{display_name:'no kind' training_status{} state:RUNNING}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.spec"}},
    {"CreateJob",
     "job{training{}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.training.scene"}},
    {"CreateJob",
     "parent:'x' job_id:'A' request_id:'u' job{display_name:'\\n' "
     "training{scene:'lego' config{method:'gan' steps:0 test_every:1 background:77 "
     "settings{key:'learning_rat' value:'1'} settings{key:'beta1' value:'2'} "
     "settings{key:'loss' value:'hinge'} init{scope:'half'}}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"parent", "job_id", "request_id", "job.training.scene", "job.display_name",
      "job.training.config.method", "job.training.config.steps", "job.training.config.test_every",
      "job.training.config.background", "job.training.config.settings[learning_rat]",
      "job.training.config.settings[beta1]", "job.training.config.settings[loss]",
      "job.training.config.init", "job.training.config.init.scope"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/lego' config{seconds:nan}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.training.config.seconds"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/lego' config{samples:-4}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.training.config.samples"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/lego' config{settings{key:'$BIG' value:'1'}}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.training.config.settings["}},
    {"CreateJob",
     "job{training{scene:'projects/other/scenes/lego'}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.training.scene"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/none'}}",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"projects/default/scenes/none"}},
    {"CreateJob",
     "parent:'projects/other' job{training{scene:'projects/other/scenes/lego'}}",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"projects/other"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/lego' "
     "config{init{model:'projects/default/models/none'}}}}",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"models/none"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/lego' config{init{model:'AUTO'}}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"init.model"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/lego' config{init{model:'auto' scope:'mlp'}}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"init.scope"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/lego' config{init{checkpoint:'auto'}}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"init.checkpoint"}},
    {"CreateJob",
     "job{training{scene:'projects/default/scenes/lego' "
     "config{init{checkpoint:'projects/default/jobs/queued/checkpoints/-'}}}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"init.checkpoint"}},
    {"CreateJob",
     "job_id:'queued' job{training{scene:'projects/default/scenes/lego'}}",
     StatusCode::kAlreadyExists,
     reason::kAlreadyExists,
     {"queued"}},
    {"GetJob",
     "name:'projects/default/jobs/a/b'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"name"}},
    {"GetJob",
     "name:'projects/default/jobs/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
    {"ListJobs",
     "page_size:-1",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"page_size"}},
    {"ListJobs",
     "page_token:'cGFnZTE'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"page_token"}},
    {"ListJobs",
     "filter:'state = running'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"filter"}},
    {"ListJobs",
     "filter:'kind = movie'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"filter"}},
    {"ListJobs",
     "filter:'kind > render'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"filter"}},
    {"UpdateJob",
     "job{name:'projects/default/jobs/queued'}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"update_mask"}},
    {"UpdateJob",
     "job{name:'projects/default/jobs/queued' priority:101} "
     "update_mask {paths:'priority'}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"priority"}},
    {"UpdateJob",
     "job{name:'projects/default/jobs/queued'} update_mask {paths:'state'}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"update_mask"}},
    {"UpdateJob",
     "job{name:'projects/default/jobs/queued' training{config{steps:7}}} "
     "update_mask{paths:'training.config'}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"update_mask"}},
    {"PauseJob", "name:'x'", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"name"}},
    {"ResumeJob",
     "name:'projects/default/jobs/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
    {"RetryJob",
     "name:'projects/default/jobs/queued' job_id:'X' request_id:'7'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job_id", "request_id"}},
    {"RetryJob",
     "name:'projects/default/jobs/queued'",
     StatusCode::kFailedPrecondition,
     reason::kStateConflict,
     {"QUEUED"}},
    {"ExtendJob",
     "name:'x' job_id:'X' request_id:'7'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"name", "job_id", "request_id", "total"}},
    {"ExtendJob",
     "name:'projects/default/jobs/queued' samples:1e16",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"samples"}},
    {"ExtendJob",
     "name:'projects/default/jobs/queued' samples:8e7",
     StatusCode::kFailedPrecondition,
     reason::kStateConflict,
     {"QUEUED"}},
    {"CancelJob",
     "name:'projects/default/jobs/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
    {"WatchJob", "name:'x'", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"name"}},
    {"WatchJob",
     "name:'projects/default/jobs/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
    {"WatchJob",
     "name:'projects/default/jobs/queued' resume_token:'%%%'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"resume_token"}},
};

const HostileCase kModelCases[] = {
    {"ListCheckpoints",
     "parent:'projects/default'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"parent"}},
    {"DeleteJob",
     "name:'projects/default/jobs/../x'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"name"}},
    {"DeleteJob",
     "name:'projects/default/jobs/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
    {"DeleteJob",
     "name:'projects/default/jobs/queued'",
     StatusCode::kFailedPrecondition,
     reason::kStateConflict,
     {"QUEUED"}},
    {"ListCheckpoints",
     "parent:'projects/default/jobs/queued' page_size:-1 page_token:'x'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"page_size", "page_token"}},
    {"PromoteCheckpoint",
     "name:'projects/default/jobs/queued' model_id:'M' request_id:'x'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"name", "model_id", "request_id"}},
    {"PromoteCheckpoint",
     "name:'projects/default/jobs/queued/checkpoints/-'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"jobs/queued has no checkpoint"}},
    {"PromoteCheckpoint",
     "name:'projects/default/jobs/queued/checkpoints/4294967296'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"name"}},
    {"GetModel",
     "name:'projects/default/models/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
    {"ListModels",
     "page_size:-2147483648",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"page_size"}},
    {"UpdateModel",
     "model{name:'m' crop{center:[0,nan,1e10] size:[0,-1,1e-12] turn:[1,1,1,1]}} "
     "update_mask{paths:'display_name'}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"model.name", "update_mask", "model.crop.center[1]", "model.crop.center[2]",
      "model.crop.size[0]", "model.crop.size[1]", "model.crop.size[2]", "model.crop.turn"}},
    {"UpdateModel",
     "model{name:'projects/default/models/no' crop{size:[1,1,1]}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"update_mask", "model.crop.center"}},
    {"UpdateModel",
     "model{name:'projects/default/models/no'} update_mask{paths:'crop'}",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
    {"UpdateJob",
     "job{name:'projects/default/jobs/queued' training{crop{center:[1e9,0,0] "
     "size:[1,1,inf]}}} update_mask{paths:'training.crop'}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.training.crop.size[0]", "job.training.crop.size[2]"}},
    {"DeleteModel",
     "name:'projects/default/models/no'",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"no"}},
};

const HostileCase kRenderCases[] = {
    {"RenderImage", "", StatusCode::kInvalidArgument, reason::kFieldInvalid, {"source", "camera"}},
    {"RenderImage",
     "model:'projects/default/models/no' $VIEW $CAMERA",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"camera"}},
    {"RenderImage",
     "model:'m' camera{width:0 height:99999 fl_x:nan cx:inf time:nan transform_matrix:[1,2,nan]} "
     "channels:[RGB,RGB,DEPTH] format:JPEG width:20000",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"model", "camera.width", "camera.height", "camera.fl_x", "camera.cx", "camera.time",
      "camera.transform_matrix", "camera.transform_matrix[2]", "channels[1]", "channels[2]",
      "width"}},
    {"RenderImage",
     "model:'projects/default/models/no' camera{width:8 height:8 fl_x:9 "
     "transform_matrix:[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"camera.transform_matrix: the first 3 columns are not a rotation"}},
    {"RenderImage",
     "model:'projects/default/models/no' orbit{count:8} width:16384 height:16384",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"width: a view of 16384 x 16384 pixels"}},
    {"RenderImage",
     "model:'projects/default/models/no' camera{width:16384 height:16384 fl_x:9 "
     "transform_matrix:[1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1]}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"camera.width: a view of 16384 x 16384 pixels"}},
    {"RenderImage",
     "model:'projects/default/models/no' orbit{count:8} width:8192 height:8192",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"a view of 8192 x 8192 pixels; at most 16384 a side and 64000000 in all"}},
    {"RenderImage",
     "model:'projects/default/models/no' width:16384 camera{width:8 height:16384 fl_x:9 "
     "transform_matrix:[1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1]}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"width: a view of 16384 x 33554432 pixels"}},
    {"RenderImage",
     "model:'projects/default/models/no' height:16 camera{width:16384 height:8 fl_x:9 "
     "transform_matrix:[1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1]}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"height: a view of 32768 x 16 pixels"}},
    {"RenderImage",
     "model:'projects/default/models/no' orbit{index:3 count:100001}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"orbit.count: must be 1 to 100000"}},
    {"RenderImage",
     "model:'projects/default/models/no' orbit{count:3} channels:[RGBA] format:JPEG "
     "width:300 height:200 style{background:[0,2,nan] crop{center:[nan,0] size:[1,0,-1] "
     "turn:[1,1,0,0]} panorama{stereo:LEFT_RIGHT eye_distance:inf}}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"channels[0]", "style.background[1]", "style.background[2]", "style.crop.center",
      "style.crop.size[1]", "style.crop.size[2]", "style.crop.turn", "style.panorama.eye_distance",
      "width"}},
    {"RenderImage",
     "model:'projects/default/models/no' orbit{index:3 count:3}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"orbit.index"}},
    {"RenderImage",
     "model:'projects/default/models/no' $VIEW",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"models/no"}},
    {"RenderImage",
     "checkpoint:'projects/default/jobs/queued/checkpoints/9' $VIEW",
     StatusCode::kNotFound,
     reason::kResourceNotFound,
     {"checkpoints/9"}},
    {"RenderImage",
     "training_job:'projects/default/jobs/queued' $VIEW",
     StatusCode::kFailedPrecondition,
     reason::kStateConflict,
     {"checkpoint"}},
};

const HostileCase kOperatorCases[] = {
    {"ListWorkers",
     "page_size:-1 page_token:'zzz'",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"page_size", "page_token"}},
};

// Permission is checked before everything else.
const HostileCase kWorkerCases[] = {
    {"CommitCheckpoint without token",
     "job:'x'",
     StatusCode::kUnauthenticated,
     reason::kTokenMissing,
     {"authorization: Bearer"}},
    {"CommitCheckpoint with wrong token",
     "job:'x'",
     StatusCode::kUnauthenticated,
     reason::kTokenInvalid,
     {}},
    {"CommitCheckpoint",
     "job:'x' checkpoint_blob{sha256:'q'} psnr:nan",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job", "checkpoint_blob", "model_blob", "psnr"}},
    {"CommitCheckpoint",
     "worker_id:'w' job:'projects/default/jobs/queued' lease_epoch:1 step:5 "
     "checkpoint_blob{sha256:'$SHA' size_bytes:5} model_blob{sha256:'$SHA' size_bytes:6}",
     StatusCode::kFailedPrecondition,
     reason::kLeaseFenced,
     {"stale lease epoch 1"}},
    {"CommitCheckpoint",
     "worker_id:'w' job:'projects/default/jobs/queued' "
     "lease_epoch:18446744073709551615 "
     "step:5 checkpoint_blob{$PRESENT_REF} model_blob{$PRESENT_REF}",
     StatusCode::kFailedPrecondition,
     reason::kLeaseFenced,
     {"stale lease epoch 18446744073709551615"}},
    {"CommitCheckpoint",
     "worker_id:'w' job:'projects/default/jobs/queued' lease_epoch:1 step:5 "
     "checkpoint_blob{$PRESENT_REF} model_blob{$PRESENT_REF}",
     StatusCode::kFailedPrecondition,
     reason::kLeaseFenced,
     {"lease"}},
    {"CommitCheckpoint with another's key",
     "worker_id:'w' job:'projects/default/jobs/queued' lease_epoch:1 step:5 "
     "checkpoint_blob{$PRESENT_REF} model_blob{$PRESENT_REF}",
     StatusCode::kPermissionDenied,
     reason::kWorkerKeyMismatch,
     {"another key"}},
    {"CommitCheckpoint",
     "job:'projects/default/jobs/queued' lease_epoch:1 step:5 "
     "checkpoint_blob{$PRESENT_REF} model_blob{$PRESENT_REF}",
     StatusCode::kPermissionDenied,
     reason::kWorkerKeyMismatch,
     {}},
    {"Synchronize with another's key",
     "hello{worker_id:'w'} draining:true",
     StatusCode::kPermissionDenied,
     reason::kWorkerKeyMismatch,
     {"w belongs"}},
    {"Synchronize without token",
     "hello{worker_id:'w'}",
     StatusCode::kUnauthenticated,
     reason::kTokenMissing,
     {}},
    {"Synchronize with wrong token",
     "hello{worker_id:'w'}",
     StatusCode::kUnauthenticated,
     reason::kTokenInvalid,
     {}},
    {"Synchronize",
     "draining:true",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"hello"}},
    {"Synchronize",
     "hello{worker_id:'../w' host:'a\\nb'} draining:true",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"hello.worker_id", "hello.host"}},
    {"Synchronize",
     "hello{worker_id:'w'} draining:true job{job:'j' lease_epoch:1}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.job"}},
    {"Synchronize",
     "hello{worker_id:'w'} draining:true "
     "job{job:'projects/default/jobs/queued' lease_epoch:1 phase:99}",
     StatusCode::kInvalidArgument,
     reason::kFieldInvalid,
     {"job.phase"}},
};

std::vector<HostileCase> AllCases() {
  std::vector<HostileCase> cases;
  const auto add = [&](std::span<const HostileCase> more) {
    cases.insert(cases.end(), more.begin(), more.end());
  };
  add(kSceneCases);
  add(kBlobCases);
  add(kJobCases);
  add(kModelCases);
  add(kRenderCases);
  add(kOperatorCases);
  add(kWorkerCases);
  return cases;
}

TEST_F(HostileRequestsTest, EachIsRefusedWithCodeReasonAndFieldsAndChangesNothing) {
  const v1::BlobRef present = server_->Put("{}");
  const std::string present_ref = "sha256:'" + present.sha256() + "' size_bytes:2";
  const std::string present_name = BlobResourceName(present) + "'";
  const auto expand = [&](const std::string& text) {
    return Expand(
        absl::StrReplaceAll(text, {{"$PRESENT_REF", present_ref}, {"$PRESENT'", present_name}}));
  };
  const std::vector<HostileCase> cases = AllCases();
  EXPECT_GE(cases.size(), 70u);
  for (const HostileCase& hostile : cases) {
    const std::string request = expand(hostile.request);
    SCOPED_TRACE(hostile.method + " {" + request.substr(0, 300) + "}");
    const absl::Status status = Send(hostile.method, request);
    EXPECT_THAT(status, FailsWith(hostile.code, hostile.reason));
    std::string said(status.message());
    std::vector<std::string> fields;
    for (const Problem& problem : GetProblems(status)) {
      fields.push_back(problem.field);
      said += "\n" + problem.field + ": " + problem.message;
    }
    EXPECT_EQ(hostile.code == StatusCode::kInvalidArgument, !fields.empty());
    for (const std::string& word : hostile.words) {
      EXPECT_THAT(said, testing::HasSubstr(expand(word)));
    }
  }
  EXPECT_EQ(server_->ListJobs().jobs_size(), 2);
  v1::ListScenesResponse scenes;
  ASSERT_THAT(RpcTestServer::Call(*server_->scene_stub, &v1::SceneService::Stub::ListScenes,
                                  v1::ListScenesRequest(), &scenes),
              IsOk());
  EXPECT_EQ(scenes.scenes_size(), 1);
  EXPECT_EQ(server_->GetJob("projects/default/jobs/queued").state(), v1::Job::QUEUED);
}

// A message over gRPC's limit reaches no handler, and the server keeps running.
TEST_F(HostileRequestsTest, MessageOverTheLimitIsRefusedAndTheServerLivesOn) {
  v1::GetSceneRequest request;
  request.set_name(std::string(5 << 20, 'x'));
  v1::Scene scene;
  EXPECT_THAT(
      RpcTestServer::Call(*server_->scene_stub, &v1::SceneService::Stub::GetScene, request, &scene),
      StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(server_->GetJob("projects/default/jobs/queued").state(), v1::Job::QUEUED);
}

TEST_F(HostileRequestsTest, TooManyBlobsInOneQuestionAreRefused) {
  v1::FindMissingBlobsRequest request;
  for (int i = 0; i < 10'001; ++i) request.add_blobs()->set_sha256(kSha);
  v1::FindMissingBlobsResponse response;
  EXPECT_THAT(RpcTestServer::Call(*server_->blob_stub, &v1::BlobService::Stub::FindMissingBlobs,
                                  request, &response),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

// A manifest that fits a request but not the message to a worker would only fail later.
TEST_F(HostileRequestsTest, ManifestThatNoWorkerCouldReceiveIsRefused) {
  v1::CreateSceneRequest request;
  for (int i = 0; i < 7'000; ++i) {
    v1::SceneFile* file = request.mutable_scene()->add_files();
    const std::string part(235, 'p');
    file->set_path("f" + std::to_string(i) + "/" + part + "/" + part);
    file->mutable_blob()->set_sha256(kSha);
  }
  v1::Scene scene;
  EXPECT_THAT(RpcTestServer::Call(*server_->scene_stub, &v1::SceneService::Stub::CreateScene,
                                  request, &scene),
              FailsWith(StatusCode::kResourceExhausted, reason::kSizeLimit));
}

}  // namespace
}  // namespace nerf
