#include "tests/client/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <thread>

#include "common/error_reason.h"
#include "common/rpc/blob_client.h"
#include "common/rpc/status_conversion.h"
#include "common/sha256.h"
#include "engine/scene/image_io.h"
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

class FakeTraining final : public Fake<v1::TrainingService> {
 public:
  using Fake::Fake;

  grpc::Status CreateTrainingJob(grpc::ServerContext*, const v1::CreateTrainingJobRequest* request,
                                 v1::TrainingJob* response) override {
    {
      MutexLock lock(state_->mu);
      (request->validate_only() ? state_->validate_job : state_->create_job).push_back(*request);
    }
    RETURN_SCRIPTED_ERROR("CreateTrainingJob");
    *response = request->training_job();
    response->set_name(request->parent() + "/trainingJobs/j-fake");
    response->set_state(v1::TrainingJob::QUEUED);
    if (!state_->wait.message().empty()) *response->mutable_wait() = state_->wait;
    response->set_init_reason(state_->init_reason);
    if (!state_->init_model.empty())
      response->mutable_effective_config()->mutable_init()->set_model(state_->init_model);
    return grpc::Status::OK;
  }
  ANSWER(GetTrainingJob, v1::TrainingJob) {
    state_->names.push_back(request->name());
    for (const v1::TrainingJob& job : state_->jobs) {
      if (job.name() == request->name()) *response = job;
    }
    response->set_name(request->name());
  }
  ANSWER(ListTrainingMetrics, v1::ListTrainingMetricsResponse) {
    response->add_points()->set_step(100);
  }
  // Page tokens are indices.
  ANSWER(ListTrainingJobs, v1::ListTrainingJobsResponse) {
    state_->list_jobs.push_back(*request);
    size_t i = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    size_t room =
        std::min<size_t>(static_cast<size_t>(request->page_size()), state_->page_size_limit);
    for (; i < state_->jobs.size() && room > 0; ++i, --room) {
      *response->add_training_jobs() = state_->jobs[i];
    }
    if (i < state_->jobs.size()) response->set_next_page_token(std::to_string(i));
  }
  ANSWER(DeleteTrainingJob, google::protobuf::Empty) { state_->names.push_back(request->name()); }
  ANSWER(PauseTrainingJob, v1::TrainingJob) {
    state_->names.push_back(request->name());
    response->set_name(request->name());
    response->set_state(v1::TrainingJob::PAUSING);
  }
  ANSWER(ResumeTrainingJob, v1::TrainingJob) {
    state_->names.push_back(request->name());
    response->set_name(request->name());
    response->set_state(v1::TrainingJob::QUEUED);
  }
  ANSWER(RetryTrainingJob, v1::TrainingJob) {
    state_->retry_job.push_back(*request);
    response->set_name("projects/default/trainingJobs/j-retry");
    response->set_state(v1::TrainingJob::QUEUED);
  }
  ANSWER(ExtendTrainingJob, v1::TrainingJob) {
    state_->extend_job.push_back(*request);
    response->set_name("projects/default/trainingJobs/j-more");
    response->set_state(v1::TrainingJob::QUEUED);
  }
  ANSWER(UpdateTrainingJob, v1::TrainingJob) {
    state_->update_job.push_back(*request);
    *response = request->training_job();
    response->set_state(v1::TrainingJob::RUNNING);
  }
  ANSWER(CancelTrainingJob, v1::TrainingJob) {
    state_->names.push_back(request->name());
    state_->cancel_keeps = request->keep_checkpoint();
    response->set_name(request->name());
    response->set_state(v1::TrainingJob::CANCELLING);
  }
  grpc::Status WatchTrainingJob(grpc::ServerContext* context,
                                const v1::WatchTrainingJobRequest* request,
                                grpc::ServerWriter<v1::WatchTrainingJobResponse>* writer) override {
    RETURN_SCRIPTED_ERROR("WatchTrainingJob");
    WatchScript script;
    std::function<void()> on_message;
    {
      MutexLock lock(state_->mu);
      state_->watch.push_back(*request);
      on_message = state_->on_watch_message;
      if (state_->watch_scripts.empty()) {
        return ToGrpcStatus(absl::InternalError("no script is left"));
      }
      script = state_->watch_scripts.front();
      state_->watch_scripts.erase(state_->watch_scripts.begin());
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

// Every render job has succeeded and has a movie.
class FakeRenderJobs final : public Fake<v1::RenderJobService> {
 public:
  using Fake::Fake;

  ANSWER(CreateRenderJob, v1::RenderJob) {
    *response = Named(request->parent() + "/renderJobs/r-fake");
  }
  ANSWER(GetRenderJob, v1::RenderJob) { *response = Named(request->name()); }
  ANSWER(ListRenderJobs, v1::ListRenderJobsResponse) {
    *response->add_render_jobs() = Named(request->parent() + "/renderJobs/r-fake");
  }
  ANSWER(CancelRenderJob, v1::RenderJob) { *response = Named(request->name()); }
  ANSWER(DeleteRenderJob, google::protobuf::Empty) {}

 private:
  // Requires state_->mu.
  v1::RenderJob Named(const std::string& name) {
    v1::RenderJob job;
    job.set_name(name);
    job.set_state(state_->render_job_state);
    if (job.state() == v1::RenderJob::QUEUED) job.mutable_wait()->set_message("the worker is busy");
    job.set_frame_count(2);
    job.set_frames_done(2);
    if (state_->render_job_images) {
      job.set_images(true);
      *job.add_frames()->add_images() = BlobOfBytes("a movie");
    }
    *job.mutable_movie_blob() = BlobOfBytes("a movie");
    state_->blobs[job.movie_blob().sha256()] = "a movie";
    return job;
  }
};

// Every pose job ends as the test says, at once.
class FakePoseJobs final : public Fake<v1::PoseJobService> {
 public:
  using Fake::Fake;

  ANSWER(CreatePoseJob, v1::PoseJob) {
    state_->pose_requests.push_back(*request);
    *response = Named(request->parent() + "/poseJobs/p-fake");
    response->set_state(v1::PoseJob::QUEUED);
  }
  ANSWER(GetPoseJob, v1::PoseJob) { *response = Named(request->name()); }
  ANSWER(ListPoseJobs, v1::ListPoseJobsResponse) {
    *response->add_pose_jobs() = Named(request->parent() + "/poseJobs/p-fake");
  }
  grpc::Status WatchPoseJob(grpc::ServerContext*, const v1::WatchPoseJobRequest* request,
                            grpc::ServerWriter<v1::WatchPoseJobResponse>* writer) override {
    RETURN_SCRIPTED_ERROR("WatchPoseJob");
    v1::PoseJob ended;
    {
      MutexLock lock(state_->mu);
      ended = Named(request->name());
    }
    v1::WatchPoseJobResponse message;
    message.set_kind(v1::WatchPoseJobResponse::STATE_CHANGED);
    message.set_resume_token("token");
    *message.mutable_pose_job() = ended;
    message.mutable_pose_job()->set_state(v1::PoseJob::RUNNING);
    message.mutable_pose_job()->mutable_progress()->set_stage(6);
    message.mutable_pose_job()->mutable_progress()->set_stages(7);
    message.mutable_pose_job()->mutable_progress()->set_doing("placing cameras");
    message.mutable_pose_job()->mutable_progress()->set_eta_seconds(75);
    writer->Write(message);
    // A broken stream is resumed.
    if (request->resume_token().empty()) return grpc::Status(grpc::UNAVAILABLE, "away");
    *message.mutable_pose_job() = ended;
    writer->Write(message);
    return grpc::Status::OK;
  }
  ANSWER(CancelPoseJob, v1::PoseJob) { *response = Named(request->name()); }
  ANSWER(DeletePoseJob, google::protobuf::Empty) {}

 private:
  // Requires state_->mu.
  v1::PoseJob Named(const std::string& name) {
    v1::PoseJob job = state_->pose_job;
    job.set_name(name);
    return job;
  }
};

// Every export job ends as the test says, at once.
class FakeExportJobs final : public Fake<v1::ExportJobService> {
 public:
  using Fake::Fake;

  ANSWER(CreateExportJob, v1::ExportJob) {
    *response = request->export_job();
    if (!state_->knows_baked) response->clear_baked();
    response->set_name(request->parent() + "/exportJobs/e-fake");
    response->set_state(v1::ExportJob::QUEUED);
    response->set_expected_bytes(state_->export_size.first);
    response->set_max_bytes(state_->export_size.second);
    response->mutable_wait()->set_reason(state_->export_wait);
    response->mutable_wait()->set_message("no worker is connected");
    if (!request->validate_only()) state_->export_requests.push_back(*request);
  }
  ANSWER(GetExportJob, v1::ExportJob) { *response = Named(request->name()); }
  ANSWER(ListExportJobs, v1::ListExportJobsResponse) {
    *response->add_export_jobs() = Named(request->parent() + "/exportJobs/e-fake");
  }
  ANSWER(CancelExportJob, v1::ExportJob) { *response = Named(request->name()); }
  ANSWER(DeleteExportJob, google::protobuf::Empty) {}
  grpc::Status WatchExportJob(grpc::ServerContext*, const v1::WatchExportJobRequest* request,
                              grpc::ServerWriter<v1::WatchExportJobResponse>* writer) override {
    RETURN_SCRIPTED_ERROR("WatchExportJob");
    v1::ExportJob ended;
    {
      MutexLock lock(state_->mu);
      ended = Named(request->name());
    }
    v1::WatchExportJobResponse message;
    message.set_kind(v1::WatchExportJobResponse::STATE_CHANGED);
    message.set_resume_token("token");
    *message.mutable_export_job() = ended;
    message.mutable_export_job()->set_state(v1::ExportJob::RUNNING);
    message.mutable_export_job()->mutable_progress()->set_step("surface");
    message.mutable_export_job()->mutable_progress()->set_share(0.5);
    writer->Write(message);
    // A broken stream is resumed.
    if (request->resume_token().empty()) return grpc::Status(grpc::UNAVAILABLE, "away");
    *message.mutable_export_job() = ended;
    writer->Write(message);
    return grpc::Status::OK;
  }

 private:
  // Requires state_->mu.
  v1::ExportJob Named(const std::string& name) {
    v1::ExportJob job = state_->export_job;
    job.set_name(name);
    state_->blobs[Sha256Hex("a mesh")] = "a mesh";
    return job;
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
  services_.push_back(std::make_unique<FakeTraining>(state));
  services_.push_back(std::make_unique<FakeModels>(state));
  services_.push_back(std::make_unique<FakeRender>(state));
  services_.push_back(std::make_unique<FakeRenderJobs>(state));
  services_.push_back(std::make_unique<FakePoseJobs>(state));
  services_.push_back(std::make_unique<FakeExportJobs>(state));
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
