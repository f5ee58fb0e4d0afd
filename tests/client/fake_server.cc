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

// "…/blobs/{sha256}/{size}" -> sha256.
std::string DigestOf(const std::string& resource) {
  const size_t blobs = resource.find("blobs/");
  return blobs == std::string::npos ? "" : resource.substr(blobs + 6, 64);
}

class FakeScenes final : public v1::SceneService::Service {
 public:
  explicit FakeScenes(FakeState* state) : state_(state) {}

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
  grpc::Status GetScene(grpc::ServerContext*, const v1::GetSceneRequest* request,
                        v1::Scene* response) override {
    RETURN_SCRIPTED_ERROR("GetScene");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    for (const v1::Scene& scene : state_->scenes) {
      if (scene.name() == request->name()) *response = scene;
    }
    response->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListScenes(grpc::ServerContext*, const v1::ListScenesRequest*,
                          v1::ListScenesResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListScenes");
    MutexLock lock(state_->mu);
    for (const v1::Scene& scene : state_->scenes) {
      *response->add_scenes() = scene;
      response->mutable_scenes(response->scenes_size() - 1)->clear_files();
    }
    return grpc::Status::OK;
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
  grpc::Status ValidateScene(grpc::ServerContext*, const v1::ValidateSceneRequest* request,
                             v1::ValidateSceneResponse* response) override {
    RETURN_SCRIPTED_ERROR("ValidateScene");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    *response = state_->validation;
    return grpc::Status::OK;
  }

 private:
  FakeState* const state_;
};

class FakeTraining final : public v1::TrainingService::Service {
 public:
  explicit FakeTraining(FakeState* state) : state_(state) {}

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
  grpc::Status GetTrainingJob(grpc::ServerContext*, const v1::GetTrainingJobRequest* request,
                              v1::TrainingJob* response) override {
    RETURN_SCRIPTED_ERROR("GetTrainingJob");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    for (const v1::TrainingJob& job : state_->jobs) {
      if (job.name() == request->name()) *response = job;
    }
    response->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListTrainingMetrics(grpc::ServerContext*, const v1::ListTrainingMetricsRequest*,
                                   v1::ListTrainingMetricsResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListTrainingMetrics");
    response->add_points()->set_step(100);
    return grpc::Status::OK;
  }
  // Page tokens are indices.
  grpc::Status ListTrainingJobs(grpc::ServerContext*, const v1::ListTrainingJobsRequest* request,
                                v1::ListTrainingJobsResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListTrainingJobs");
    MutexLock lock(state_->mu);
    state_->list_jobs.push_back(*request);
    size_t i = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    size_t room =
        std::min<size_t>(static_cast<size_t>(request->page_size()), state_->page_size_limit);
    for (; i < state_->jobs.size() && room > 0; ++i, --room) {
      *response->add_training_jobs() = state_->jobs[i];
    }
    if (i < state_->jobs.size()) response->set_next_page_token(std::to_string(i));
    return grpc::Status::OK;
  }
  grpc::Status DeleteTrainingJob(grpc::ServerContext*, const v1::DeleteTrainingJobRequest* request,
                                 google::protobuf::Empty*) override {
    RETURN_SCRIPTED_ERROR("DeleteTrainingJob");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    return grpc::Status::OK;
  }
  grpc::Status PauseTrainingJob(grpc::ServerContext*, const v1::PauseTrainingJobRequest* request,
                                v1::TrainingJob* response) override {
    RETURN_SCRIPTED_ERROR("PauseTrainingJob");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    response->set_name(request->name());
    response->set_state(v1::TrainingJob::PAUSING);
    return grpc::Status::OK;
  }
  grpc::Status ResumeTrainingJob(grpc::ServerContext*, const v1::ResumeTrainingJobRequest* request,
                                 v1::TrainingJob* response) override {
    RETURN_SCRIPTED_ERROR("ResumeTrainingJob");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    response->set_name(request->name());
    response->set_state(v1::TrainingJob::QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status RetryTrainingJob(grpc::ServerContext*, const v1::RetryTrainingJobRequest* request,
                                v1::TrainingJob* response) override {
    RETURN_SCRIPTED_ERROR("RetryTrainingJob");
    MutexLock lock(state_->mu);
    state_->retry_job.push_back(*request);
    response->set_name("projects/default/trainingJobs/j-retry");
    response->set_state(v1::TrainingJob::QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status ExtendTrainingJob(grpc::ServerContext*, const v1::ExtendTrainingJobRequest* request,
                                 v1::TrainingJob* response) override {
    RETURN_SCRIPTED_ERROR("ExtendTrainingJob");
    MutexLock lock(state_->mu);
    state_->extend_job.push_back(*request);
    response->set_name("projects/default/trainingJobs/j-more");
    response->set_state(v1::TrainingJob::QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status UpdateTrainingJob(grpc::ServerContext*, const v1::UpdateTrainingJobRequest* request,
                                 v1::TrainingJob* response) override {
    RETURN_SCRIPTED_ERROR("UpdateTrainingJob");
    MutexLock lock(state_->mu);
    state_->update_job.push_back(*request);
    *response = request->training_job();
    response->set_state(v1::TrainingJob::RUNNING);
    return grpc::Status::OK;
  }
  grpc::Status CancelTrainingJob(grpc::ServerContext*, const v1::CancelTrainingJobRequest* request,
                                 v1::TrainingJob* response) override {
    RETURN_SCRIPTED_ERROR("CancelTrainingJob");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    state_->cancel_keeps = request->keep_checkpoint();
    response->set_name(request->name());
    response->set_state(v1::TrainingJob::CANCELLING);
    return grpc::Status::OK;
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

 private:
  FakeState* const state_;
};

class FakeModels final : public v1::ModelService::Service {
 public:
  explicit FakeModels(FakeState* state) : state_(state) {}

  grpc::Status PromoteCheckpoint(grpc::ServerContext*, const v1::PromoteCheckpointRequest* request,
                                 v1::Model* response) override {
    RETURN_SCRIPTED_ERROR("PromoteCheckpoint");
    MutexLock lock(state_->mu);
    state_->promote.push_back(*request);
    response->set_name("projects/default/models/" +
                       (request->model_id().empty() ? "m-fake" : request->model_id()));
    response->set_checkpoint(request->name());
    return grpc::Status::OK;
  }
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest* request,
                        v1::Model* response) override {
    RETURN_SCRIPTED_ERROR("GetModel");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    for (const v1::Model& model : state_->models) {
      if (model.name() == request->name()) *response = model;
    }
    return grpc::Status::OK;
  }
  grpc::Status UpdateModel(grpc::ServerContext*, const v1::UpdateModelRequest* request,
                           v1::Model* response) override {
    RETURN_SCRIPTED_ERROR("UpdateModel");
    MutexLock lock(state_->mu);
    state_->update_model.push_back(*request);
    *response = request->model();
    return grpc::Status::OK;
  }
  grpc::Status DeleteModel(grpc::ServerContext*, const v1::DeleteModelRequest* request,
                           google::protobuf::Empty*) override {
    RETURN_SCRIPTED_ERROR("DeleteModel");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    return grpc::Status::OK;
  }
  grpc::Status CreateShare(grpc::ServerContext*, const v1::CreateShareRequest* request,
                           v1::Share* response) override {
    RETURN_SCRIPTED_ERROR("CreateShare");
    MutexLock lock(state_->mu);
    state_->create_share.push_back(*request);
    *response = request->share();
    response->set_name(request->parent() + "/shares/sh-fake");
    response->set_secret("s3cret");
    return grpc::Status::OK;
  }
  grpc::Status ListShares(grpc::ServerContext*, const v1::ListSharesRequest* request,
                          v1::ListSharesResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListShares");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->parent());
    v1::Share* share = response->add_shares();
    share->set_name(request->parent() + "/shares/sh-fake");
    share->set_display_name("museum");
    return grpc::Status::OK;
  }
  grpc::Status RevokeShare(grpc::ServerContext*, const v1::RevokeShareRequest* request,
                           google::protobuf::Empty*) override {
    RETURN_SCRIPTED_ERROR("RevokeShare");
    MutexLock lock(state_->mu);
    state_->names.push_back(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse*) override {
    RETURN_SCRIPTED_ERROR("ListModels");
    return grpc::Status::OK;
  }

 private:
  FakeState* const state_;
};

class FakeRender final : public v1::RenderService::Service {
 public:
  explicit FakeRender(FakeState* state) : state_(state) {}

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

  FakeState* const state_;
};

// Every render job has succeeded and has a movie.
class FakeRenderJobs final : public v1::RenderJobService::Service {
 public:
  explicit FakeRenderJobs(FakeState* state) : state_(state) {}

  grpc::Status CreateRenderJob(grpc::ServerContext*, const v1::CreateRenderJobRequest* request,
                               v1::RenderJob* response) override {
    RETURN_SCRIPTED_ERROR("CreateRenderJob");
    *response = Named(request->parent() + "/renderJobs/r-fake");
    return grpc::Status::OK;
  }
  grpc::Status GetRenderJob(grpc::ServerContext*, const v1::GetRenderJobRequest* request,
                            v1::RenderJob* response) override {
    RETURN_SCRIPTED_ERROR("GetRenderJob");
    *response = Named(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListRenderJobs(grpc::ServerContext*, const v1::ListRenderJobsRequest* request,
                              v1::ListRenderJobsResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListRenderJobs");
    *response->add_render_jobs() = Named(request->parent() + "/renderJobs/r-fake");
    return grpc::Status::OK;
  }
  grpc::Status CancelRenderJob(grpc::ServerContext*, const v1::CancelRenderJobRequest* request,
                               v1::RenderJob* response) override {
    RETURN_SCRIPTED_ERROR("CancelRenderJob");
    *response = Named(request->name());
    return grpc::Status::OK;
  }
  grpc::Status DeleteRenderJob(grpc::ServerContext*, const v1::DeleteRenderJobRequest*,
                               google::protobuf::Empty*) override {
    RETURN_SCRIPTED_ERROR("DeleteRenderJob");
    return grpc::Status::OK;
  }

 private:
  v1::RenderJob Named(const std::string& name) {
    MutexLock lock(state_->mu);
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

  FakeState* const state_;
};

// Every pose job ends as the test says, at once.
class FakePoseJobs final : public v1::PoseJobService::Service {
 public:
  explicit FakePoseJobs(FakeState* state) : state_(state) {}

  grpc::Status CreatePoseJob(grpc::ServerContext*, const v1::CreatePoseJobRequest* request,
                             v1::PoseJob* response) override {
    RETURN_SCRIPTED_ERROR("CreatePoseJob");
    {
      MutexLock lock(state_->mu);
      state_->pose_requests.push_back(*request);
    }
    *response = Named(request->parent() + "/poseJobs/p-fake");
    response->set_state(v1::PoseJob::QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status GetPoseJob(grpc::ServerContext*, const v1::GetPoseJobRequest* request,
                          v1::PoseJob* response) override {
    RETURN_SCRIPTED_ERROR("GetPoseJob");
    *response = Named(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListPoseJobs(grpc::ServerContext*, const v1::ListPoseJobsRequest* request,
                            v1::ListPoseJobsResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListPoseJobs");
    *response->add_pose_jobs() = Named(request->parent() + "/poseJobs/p-fake");
    return grpc::Status::OK;
  }
  grpc::Status WatchPoseJob(grpc::ServerContext*, const v1::WatchPoseJobRequest* request,
                            grpc::ServerWriter<v1::WatchPoseJobResponse>* writer) override {
    RETURN_SCRIPTED_ERROR("WatchPoseJob");
    v1::WatchPoseJobResponse message;
    message.set_kind(v1::WatchPoseJobResponse::STATE_CHANGED);
    message.set_resume_token("token");
    *message.mutable_pose_job() = Named(request->name());
    message.mutable_pose_job()->set_state(v1::PoseJob::RUNNING);
    message.mutable_pose_job()->mutable_progress()->set_stage(6);
    message.mutable_pose_job()->mutable_progress()->set_stages(7);
    message.mutable_pose_job()->mutable_progress()->set_doing("placing cameras");
    message.mutable_pose_job()->mutable_progress()->set_eta_seconds(75);
    writer->Write(message);
    // A broken stream is resumed.
    if (request->resume_token().empty()) return grpc::Status(grpc::UNAVAILABLE, "away");
    *message.mutable_pose_job() = Named(request->name());
    writer->Write(message);
    return grpc::Status::OK;
  }
  grpc::Status CancelPoseJob(grpc::ServerContext*, const v1::CancelPoseJobRequest* request,
                             v1::PoseJob* response) override {
    RETURN_SCRIPTED_ERROR("CancelPoseJob");
    *response = Named(request->name());
    return grpc::Status::OK;
  }
  grpc::Status DeletePoseJob(grpc::ServerContext*, const v1::DeletePoseJobRequest*,
                             google::protobuf::Empty*) override {
    RETURN_SCRIPTED_ERROR("DeletePoseJob");
    return grpc::Status::OK;
  }

 private:
  v1::PoseJob Named(const std::string& name) {
    MutexLock lock(state_->mu);
    v1::PoseJob job = state_->pose_job;
    job.set_name(name);
    return job;
  }

  FakeState* const state_;
};

// Every export job ends as the test says, at once.
class FakeExportJobs final : public v1::ExportJobService::Service {
 public:
  explicit FakeExportJobs(FakeState* state) : state_(state) {}

  grpc::Status CreateExportJob(grpc::ServerContext*, const v1::CreateExportJobRequest* request,
                               v1::ExportJob* response) override {
    RETURN_SCRIPTED_ERROR("CreateExportJob");
    *response = request->export_job();
    response->set_name(request->parent() + "/exportJobs/e-fake");
    response->set_state(v1::ExportJob::QUEUED);
    MutexLock lock(state_->mu);
    response->mutable_wait()->set_reason(state_->export_wait);
    response->mutable_wait()->set_message("no worker is connected");
    if (!request->validate_only()) state_->export_requests.push_back(*request);
    return grpc::Status::OK;
  }
  grpc::Status GetExportJob(grpc::ServerContext*, const v1::GetExportJobRequest* request,
                            v1::ExportJob* response) override {
    RETURN_SCRIPTED_ERROR("GetExportJob");
    *response = Named(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListExportJobs(grpc::ServerContext*, const v1::ListExportJobsRequest* request,
                              v1::ListExportJobsResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListExportJobs");
    *response->add_export_jobs() = Named(request->parent() + "/exportJobs/e-fake");
    return grpc::Status::OK;
  }
  grpc::Status CancelExportJob(grpc::ServerContext*, const v1::CancelExportJobRequest* request,
                               v1::ExportJob* response) override {
    RETURN_SCRIPTED_ERROR("CancelExportJob");
    *response = Named(request->name());
    return grpc::Status::OK;
  }
  grpc::Status DeleteExportJob(grpc::ServerContext*, const v1::DeleteExportJobRequest*,
                               google::protobuf::Empty*) override {
    RETURN_SCRIPTED_ERROR("DeleteExportJob");
    return grpc::Status::OK;
  }
  grpc::Status WatchExportJob(grpc::ServerContext*, const v1::WatchExportJobRequest* request,
                              grpc::ServerWriter<v1::WatchExportJobResponse>* writer) override {
    RETURN_SCRIPTED_ERROR("WatchExportJob");
    v1::WatchExportJobResponse message;
    message.set_kind(v1::WatchExportJobResponse::STATE_CHANGED);
    message.set_resume_token("token");
    *message.mutable_export_job() = Named(request->name());
    message.mutable_export_job()->set_state(v1::ExportJob::RUNNING);
    message.mutable_export_job()->mutable_progress()->set_step("surface");
    message.mutable_export_job()->mutable_progress()->set_share(0.5);
    writer->Write(message);
    // A broken stream is resumed.
    if (request->resume_token().empty()) return grpc::Status(grpc::UNAVAILABLE, "away");
    *message.mutable_export_job() = Named(request->name());
    writer->Write(message);
    return grpc::Status::OK;
  }

 private:
  v1::ExportJob Named(const std::string& name) {
    MutexLock lock(state_->mu);
    v1::ExportJob job = state_->export_job;
    job.set_name(name);
    state_->blobs[Sha256Hex("a mesh")] = "a mesh";
    return job;
  }

  FakeState* const state_;
};

class FakeBlobs final : public v1::BlobService::Service {
 public:
  explicit FakeBlobs(FakeState* state) : state_(state) {}

  grpc::Status FindMissingBlobs(grpc::ServerContext*, const v1::FindMissingBlobsRequest* request,
                                v1::FindMissingBlobsResponse* response) override {
    RETURN_SCRIPTED_ERROR("FindMissingBlobs");
    MutexLock lock(state_->mu);
    for (const v1::BlobRef& blob : request->blobs()) {
      if (!state_->blobs.contains(blob.sha256())) *response->add_missing() = blob;
    }
    return grpc::Status::OK;
  }

 private:
  FakeState* const state_;
};

class FakeByteStream final : public google::bytestream::ByteStream::Service {
 public:
  explicit FakeByteStream(FakeState* state) : state_(state) {}

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

 private:
  FakeState* const state_;
};

class FakeAdmin final : public v1::AdminService::Service {
 public:
  explicit FakeAdmin(FakeState* state) : state_(state) {}

  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListWorkers");
    MutexLock lock(state_->mu);
    for (const v1::Worker& worker : state_->workers) *response->add_workers() = worker;
    return grpc::Status::OK;
  }
  grpc::Status DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest* request,
                           v1::Worker* response) override {
    RETURN_SCRIPTED_ERROR("DrainWorker");
    response->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status UndrainWorker(grpc::ServerContext*, const v1::UndrainWorkerRequest* request,
                             v1::Worker* response) override {
    RETURN_SCRIPTED_ERROR("UndrainWorker");
    response->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListProjects(grpc::ServerContext*, const v1::ListProjectsRequest*,
                            v1::ListProjectsResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListProjects");
    response->add_projects()->set_name("projects/default");
    response->add_projects()->set_name("projects/team-a");  // of the examples
    return grpc::Status::OK;
  }
  grpc::Status GetProject(grpc::ServerContext*, const v1::GetProjectRequest* request,
                          v1::Project* response) override {
    RETURN_SCRIPTED_ERROR("GetProject");
    response->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status UpdateProject(grpc::ServerContext*, const v1::UpdateProjectRequest* request,
                             v1::Project* response) override {
    RETURN_SCRIPTED_ERROR("UpdateProject");
    *response = request->project();
    return grpc::Status::OK;
  }
  grpc::Status GetAccess(grpc::ServerContext*, const v1::GetAccessRequest*,
                         v1::Access* response) override {
    RETURN_SCRIPTED_ERROR("GetAccess");
    MutexLock lock(state_->mu);
    *response = state_->access;
    if (response->principal().empty()) response->set_principal("admin.token");
    return grpc::Status::OK;
  }
  grpc::Status CreateToken(grpc::ServerContext*, const v1::CreateTokenRequest* request,
                           v1::Token* response) override {
    RETURN_SCRIPTED_ERROR("CreateToken");
    *response = request->token();
    response->set_name("tokens/t-fake");
    response->set_secret("s3cret");
    return grpc::Status::OK;
  }
  grpc::Status ListTokens(grpc::ServerContext*, const v1::ListTokensRequest*,
                          v1::ListTokensResponse* response) override {
    RETURN_SCRIPTED_ERROR("ListTokens");
    response->add_tokens()->set_name("tokens/t-fake");
    return grpc::Status::OK;
  }
  grpc::Status DeleteToken(grpc::ServerContext*, const v1::DeleteTokenRequest*,
                           google::protobuf::Empty*) override {
    RETURN_SCRIPTED_ERROR("DeleteToken");
    return grpc::Status::OK;
  }
  grpc::Status BackupStore(grpc::ServerContext*, const v1::BackupStoreRequest*,
                           v1::BackupStoreResponse* response) override {
    RETURN_SCRIPTED_ERROR("BackupStore");
    response->set_path("/data/backups/b");
    return grpc::Status::OK;
  }

 private:
  FakeState* const state_;
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
