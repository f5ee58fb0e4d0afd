#include "tests/client/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <thread>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/messages/blob_ref.h"
#include "common/rpc/status_conversion.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Counts the call. Returns the method's next scripted error, or OK.
grpc::Status NextError(FakeState* state, const std::string& method) {
  if (state->on_call) state->on_call(method);
  MutexLock lock(state->mu);
  ++state->calls[method];
  std::vector<absl::Status>& errors = state->errors[method];
  if (errors.empty()) return grpc::Status::OK;
  const absl::Status error = errors.front();
  errors.erase(errors.begin());
  return ToGrpcStatus(error);
}

#define RETURN_SCRIPTED_ERROR(method) \
  if (grpc::Status scripted = NextError(state_, method); !scripted.ok()) return scripted

// A unary method: returns its next scripted error, or what the body that follows makes of `request`
// while state_->mu is held.
#define ANSWER(Method, Response)                                                \
  grpc::Status Method(grpc::ServerContext*, const v1::Method##Request* request, \
                      Response* response) override {                            \
    RETURN_SCRIPTED_ERROR(#Method);                                             \
    MutexLock lock(state_->mu);                                                 \
    Answer##Method(request, response);                                          \
    return grpc::Status::OK;                                                    \
  }                                                                             \
  void Answer##Method([[maybe_unused]] const v1::Method##Request* request,      \
                      [[maybe_unused]] Response* response)

template <typename Api>
class Fake : public Api::Service {
 public:
  explicit Fake(FakeState* state) : state_(state) {}

 protected:
  FakeState* const state_;
};

// "…/blobs/{sha256}/{size}" -> sha256.
std::string DigestOf(const std::string& resource) {
  const size_t blobs = resource.find("blobs/");
  return blobs == std::string::npos ? "" : resource.substr(blobs + 6, 64);
}

class FakeScenes final : public Fake<v1::SceneService> {
 public:
  using Fake::Fake;

  grpc::Status CreateScene(grpc::ServerContext*, const v1::CreateSceneRequest* request,
                           v1::Scene* response) override {
    {
      MutexLock lock(state_->mu);
      state_->create_scene.push_back(*request);
    }
    RETURN_SCRIPTED_ERROR("CreateScene");
    *response = request->scene();
    response->set_name(request->parent() + "/scenes/s-fake");
    double size = 0;
    for (const v1::SceneFile& file : request->scene().files()) size += file.blob().size_bytes();
    response->set_size_bytes(size);
    return grpc::Status::OK;
  }
  ANSWER(GetScene, v1::Scene) {
    state_->names.push_back(request->name());
    for (const v1::Scene& scene : state_->scenes) {
      if (scene.name() == request->name()) *response = scene;
    }
    response->set_name(request->name());
  }
  ANSWER(ListScenes, v1::ListScenesResponse) {
    for (const v1::Scene& scene : state_->scenes) {
      *response->add_scenes() = scene;
      response->mutable_scenes(response->scenes_size() - 1)->clear_files();
    }
  }
  grpc::Status DeleteScene(grpc::ServerContext*, const v1::DeleteSceneRequest* request,
                           google::protobuf::Empty*) override {
    {
      MutexLock lock(state_->mu);
      state_->names.push_back(request->name());
    }
    RETURN_SCRIPTED_ERROR("DeleteScene");
    return grpc::Status::OK;
  }
  ANSWER(ValidateScene, v1::ValidateSceneResponse) {
    state_->names.push_back(request->name());
    *response = state_->validation;
  }
  ANSWER(DescribeScene, v1::DescribeSceneResponse) { *response = state_->description; }
};

// Jobs that no test has named are of the kind that their ids say: r-, p- and e-. They end as the
// test says, at once.
class FakeJobs final : public Fake<v1::JobService> {
 public:
  using Fake::Fake;

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                         v1::Job* response) override {
    const v1::Job& job = request->job();
    if (job.has_training()) {
      MutexLock lock(state_->mu);
      (request->validate_only() ? state_->validate_job : state_->create_job).push_back(*request);
    }
    RETURN_SCRIPTED_ERROR("CreateJob");
    MutexLock lock(state_->mu);
    *response = job;
    response->set_state(v1::Job::QUEUED);
    const std::string jobs = request->parent() + "/jobs/";
    if (job.has_training()) {
      response->set_name(jobs + "j-fake");
      if (!state_->wait.message().empty()) *response->mutable_wait() = state_->wait;
      v1::TrainingStatus& status = *response->mutable_training_status();
      status.set_init_reason(state_->init_reason);
      if (!state_->init_model.empty())
        status.mutable_effective_config()->mutable_init()->set_model(state_->init_model);
    } else if (job.has_render()) {
      response->set_name(jobs + "r-fake");
    } else if (job.has_pose()) {
      state_->pose_requests.push_back(*request);
      *response = Find(jobs + "p-fake");
      response->set_state(v1::Job::QUEUED);
    } else {
      response->set_name(jobs + "e-fake");
      response->mutable_export_status()->set_expected_bytes(state_->export_size.first);
      response->mutable_export_status()->set_max_bytes(state_->export_size.second);
      response->mutable_wait()->set_reason(state_->export_wait);
      response->mutable_wait()->set_message("no worker is connected");
      if (!request->validate_only()) state_->export_requests.push_back(*request);
    }
    return grpc::Status::OK;
  }
  ANSWER(GetJob, v1::Job) {
    state_->names.push_back(request->name());
    *response = Find(request->name());
  }
  ANSWER(ListJobMetrics, v1::ListJobMetricsResponse) { response->add_points()->set_step(100); }
  // Page tokens are indices.
  ANSWER(ListJobs, v1::ListJobsResponse) {
    state_->list_jobs.push_back(*request);
    size_t i = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    size_t room =
        std::min<size_t>(static_cast<size_t>(request->page_size()), state_->page_size_limit);
    for (; i < state_->jobs.size() && room > 0; ++i, --room) {
      *response->add_jobs() = state_->jobs[i];
    }
    if (i < state_->jobs.size()) response->set_next_page_token(std::to_string(i));
  }
  ANSWER(DeleteJob, google::protobuf::Empty) { state_->names.push_back(request->name()); }
  ANSWER(PauseJob, v1::Job) { Change(request->name(), v1::Job::PAUSING, response); }
  ANSWER(ResumeJob, v1::Job) { Change(request->name(), v1::Job::QUEUED, response); }
  ANSWER(RetryJob, v1::Job) {
    state_->retry_job.push_back(*request);
    response->set_name("projects/default/jobs/j-retry");
    response->set_state(v1::Job::QUEUED);
  }
  ANSWER(ExtendJob, v1::Job) {
    state_->extend_job.push_back(*request);
    response->set_name("projects/default/jobs/j-more");
    response->set_state(v1::Job::QUEUED);
  }
  ANSWER(UpdateJob, v1::Job) {
    state_->update_job.push_back(*request);
    *response = request->job();
    response->set_state(v1::Job::RUNNING);
  }
  ANSWER(CancelJob, v1::Job) {
    state_->cancel_keeps = request->keep_checkpoint();
    Change(request->name(), v1::Job::CANCELLING, response);
  }
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    RETURN_SCRIPTED_ERROR("WatchJob");
    WatchScript script;
    std::function<void()> on_message;
    {
      MutexLock lock(state_->mu);
      state_->watch.push_back(*request);
      on_message = state_->on_watch_message;
      if (const v1::Job job = Find(request->name());
          job.has_render() || job.has_pose() || job.has_export_()) {
        script = ScriptOf(job, request->resume_token().empty());
      } else if (state_->watch_scripts.empty()) {
        return ToGrpcStatus(absl::InternalError("no script is left"));
      } else {
        script = state_->watch_scripts.front();
        state_->watch_scripts.erase(state_->watch_scripts.begin());
      }
    }
    for (const auto& message : script.messages) {
      writer->Write(message);
      if (on_message) on_message();
    }
    while (script.hang && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ToGrpcStatus(script.end);
  }

 private:
  // Those below require state_->mu.
  v1::Job Find(const std::string& name) {
    for (const char* content : {"a movie", "a mesh", "a report"}) {
      state_->blobs[Sha256Hex(content)] = content;
    }
    for (const v1::Job& job : state_->jobs) {
      if (job.name() == name) return job;
    }
    v1::Job job;
    const std::string id = name.substr(name.rfind('/') + 1);
    if (id.starts_with("r-")) job = state_->render_job;
    if (id.starts_with("p-")) job = state_->pose_job;
    if (id.starts_with("e-")) job = state_->export_job;
    job.set_name(name);
    return job;
  }
  void Change(const std::string& name, v1::Job::State state, v1::Job* job) {
    state_->names.push_back(name);
    *job = Find(name);
    job->set_state(state);
  }
  // The first stream breaks before the end.
  static WatchScript ScriptOf(v1::Job ended, bool is_first) {
    if (ended.has_render()) ended.mutable_render_status()->clear_frames();  // as in lists
    v1::WatchJobResponse message;
    message.set_kind(v1::WatchJobResponse::STATE_CHANGED);
    message.set_resume_token("token");
    v1::Job& running = *message.mutable_job();
    running = ended;
    running.set_state(v1::Job::RUNNING);
    if (running.has_pose()) {
      v1::PoseProgress& progress = *running.mutable_pose_status()->mutable_progress();
      progress.set_stage(6);
      progress.set_stages(7);
      progress.set_doing("placing cameras");
      progress.set_eta_seconds(75);
    } else if (running.has_export_()) {
      running.mutable_export_status()->mutable_progress()->set_step("surface");
      running.mutable_export_status()->mutable_progress()->set_share(0.5);
    }
    if (is_first) return {{message}, absl::UnavailableError("away")};
    WatchScript script{{message, message}, absl::OkStatus()};
    *script.messages[1].mutable_job() = ended;
    return script;
  }
};

class FakeModels final : public Fake<v1::ModelService> {
 public:
  using Fake::Fake;

  ANSWER(PromoteCheckpoint, v1::Model) {
    state_->promote.push_back(*request);
    response->set_name("projects/default/models/" +
                       (request->model_id().empty() ? "m-fake" : request->model_id()));
    response->set_checkpoint(request->name());
  }
  ANSWER(GetModel, v1::Model) {
    state_->names.push_back(request->name());
    for (const v1::Model& model : state_->models) {
      if (model.name() == request->name()) *response = model;
    }
  }
  ANSWER(UpdateModel, v1::Model) {
    state_->update_model.push_back(*request);
    *response = request->model();
  }
  ANSWER(DeleteModel, google::protobuf::Empty) { state_->names.push_back(request->name()); }
  ANSWER(CreateShare, v1::Share) {
    state_->create_share.push_back(*request);
    *response = request->share();
    response->set_name(request->parent() + "/shares/sh-fake");
    response->set_secret("s3cret");
  }
  ANSWER(ListShares, v1::ListSharesResponse) {
    state_->names.push_back(request->parent());
    v1::Share* share = response->add_shares();
    share->set_name(request->parent() + "/shares/sh-fake");
    share->set_display_name("museum");
  }
  ANSWER(RevokeShare, google::protobuf::Empty) { state_->names.push_back(request->name()); }
  ANSWER(ListModels, v1::ListModelsResponse) {}
};

class FakeRender final : public Fake<v1::RenderService> {
 public:
  using Fake::Fake;

  grpc::Status RenderImage(grpc::ServerContext* context, const v1::RenderImageRequest* request,
                           v1::RenderImageResponse* response) override {
    size_t index = 0;
    std::string rgb;
    {
      MutexLock lock(state_->mu);
      state_->render.push_back(*request);
      state_->render_time_left.push_back(
          absl::FromChrono(context->deadline() - std::chrono::system_clock::now()));
      index = state_->render.size();
      rgb = state_->rendered_rgb;
    }
    RETURN_SCRIPTED_ERROR("RenderImage");
    *response = state_->render_response;
    for (const int channel : request->channels()) {
      v1::RenderedImage* image = response->add_images();
      image->set_channel(static_cast<v1::RenderChannel>(channel));
      if (channel == v1::DEPTH) {
        // One pixel, at half of this view's far distance.
        image->set_content(EncodePng16(1, 1, std::vector<uint16_t>{32768}).value());
      } else if (channel == v1::RGB && !rgb.empty()) {
        image->set_content(rgb);
      } else {
        image->set_content(fmt::format("image {} of call {}", channel, index));
      }
    }
    if (state_->render_in_blobs) MoveIntoBlobs(response);
    response->set_width(8);
    response->set_height(6);
    response->set_far(request->orbit().index() == 1 ? 6.5 : 3.25);
    return grpc::Status::OK;
  }

 private:
  void MoveIntoBlobs(v1::RenderImageResponse* response) {
    MutexLock lock(state_->mu);
    for (v1::RenderedImage& image : *response->mutable_images()) {
      *image.mutable_blob() = BlobOfBytes(image.content());
      if (!state_->keep_blobs) state_->blobs[image.blob().sha256()] = image.content();
      image.clear_content();
    }
  }
};

class FakeBlobs final : public Fake<v1::BlobService> {
 public:
  using Fake::Fake;

  ANSWER(FindMissingBlobs, v1::FindMissingBlobsResponse) {
    for (const v1::BlobRef& blob : request->blobs()) {
      if (!state_->blobs.contains(blob.sha256())) *response->add_missing() = blob;
    }
  }
};

class FakeByteStream final : public Fake<google::bytestream::ByteStream> {
 public:
  using Fake::Fake;

  grpc::Status Write(grpc::ServerContext*,
                     grpc::ServerReader<google::bytestream::WriteRequest>* reader,
                     google::bytestream::WriteResponse* response) override {
    RETURN_SCRIPTED_ERROR("Write");
    google::bytestream::WriteRequest request;
    std::string digest, content;
    while (reader->Read(&request)) {
      if (digest.empty()) digest = DigestOf(request.resource_name());
      content += request.data();
    }
    if (Sha256Hex(content) != digest) {
      return ToGrpcStatus(absl::InvalidArgumentError("the digest is wrong"));
    }
    response->set_committed_size(static_cast<int64_t>(content.size()));
    MutexLock lock(state_->mu);
    state_->writes.push_back(digest);
    state_->blobs[digest] = std::move(content);
    return grpc::Status::OK;
  }
  // In two halves.
  grpc::Status Read(grpc::ServerContext* context, const google::bytestream::ReadRequest* request,
                    grpc::ServerWriter<google::bytestream::ReadResponse>* writer) override {
    RETURN_SCRIPTED_ERROR("Read");
    std::string content;
    std::function<void()> on_read;
    {
      MutexLock lock(state_->mu);
      content = state_->blobs[DigestOf(request->resource_name())].substr(
          static_cast<size_t>(request->read_offset()));
      on_read = state_->on_read;
    }
    google::bytestream::ReadResponse response;
    response.set_data(content.substr(0, content.size() / 2));
    writer->Write(response);
    if (on_read) on_read();
    while (on_read && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    response.set_data(content.substr(content.size() / 2));
    writer->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status QueryWriteStatus(grpc::ServerContext*,
                                const google::bytestream::QueryWriteStatusRequest* request,
                                google::bytestream::QueryWriteStatusResponse* response) override {
    MutexLock lock(state_->mu);
    response->set_complete(state_->blobs.contains(DigestOf(request->resource_name())));
    return grpc::Status::OK;
  }
};

class FakeAdmin final : public Fake<v1::AdminService> {
 public:
  using Fake::Fake;

  ANSWER(ListWorkers, v1::ListWorkersResponse) {
    for (const v1::Worker& worker : state_->workers) *response->add_workers() = worker;
  }
  ANSWER(DrainWorker, v1::Worker) { response->set_name(request->name()); }
  ANSWER(UndrainWorker, v1::Worker) { response->set_name(request->name()); }
  ANSWER(ListProjects, v1::ListProjectsResponse) {
    response->add_projects()->set_name("projects/default");
    response->add_projects()->set_name("projects/team-a");  // of the examples
  }
  ANSWER(GetProject, v1::Project) { response->set_name(request->name()); }
  ANSWER(UpdateProject, v1::Project) { *response = request->project(); }
  ANSWER(GetAccess, v1::Access) {
    *response = state_->access;
    if (response->principal().empty()) response->set_principal("admin.token");
  }
  ANSWER(CreateToken, v1::Token) {
    *response = request->token();
    response->set_name("tokens/t-fake");
    response->set_secret("s3cret");
  }
  ANSWER(ListTokens, v1::ListTokensResponse) { response->add_tokens()->set_name("tokens/t-fake"); }
  ANSWER(DeleteToken, google::protobuf::Empty) {}
  ANSWER(BackupStore, v1::BackupStoreResponse) { response->set_path("/data/backups/b"); }
};

}  // namespace

FakeServer::FakeServer(FakeState* state) {
  grpc::EnableDefaultHealthCheckService(true);
  services_.push_back(std::make_unique<FakeScenes>(state));
  services_.push_back(std::make_unique<FakeJobs>(state));
  services_.push_back(std::make_unique<FakeModels>(state));
  services_.push_back(std::make_unique<FakeRender>(state));
  services_.push_back(std::make_unique<FakeBlobs>(state));
  services_.push_back(std::make_unique<FakeByteStream>(state));
  services_.push_back(std::make_unique<FakeAdmin>(state));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  for (const auto& service : services_) builder.RegisterService(service.get());
  server_ = builder.BuildAndStart();
  address_ = fmt::format("127.0.0.1:{}", port);
}

FakeServer::~FakeServer() {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

}  // namespace nerf
