#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/messages/blob_ref.h"
#include "common/mutex.h"
#include "google/bytestream/bytestream.grpc.pb.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "nerf/v1/blob_service.grpc.pb.h"
#include "nerf/v1/job_service.grpc.pb.h"
#include "nerf/v1/model_service.grpc.pb.h"
#include "nerf/v1/render_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"

namespace nerf {

// A stream of a watch: its messages and its final status.
struct WatchScript {
  std::vector<v1::WatchJobResponse> messages;
  absl::Status end;
  bool hang = false;  // stay open after the messages until the client leaves
};

inline v1::Job SucceededRenderJob() {
  v1::Job job;
  job.set_state(v1::Job::SUCCEEDED);
  job.mutable_render()->set_model("projects/default/models/mic");
  job.mutable_render_status()->set_frame_count(2);
  job.mutable_render_status()->set_frames_done(2);
  *job.mutable_render_status()->mutable_movie_blob() = BlobOfBytes("a movie");
  return job;
}

inline v1::Job SucceededPoseJob() {
  v1::Job job;
  job.set_state(v1::Job::SUCCEEDED);
  job.mutable_pose()->set_scene("projects/default/scenes/s-fake");
  v1::PoseStatus& status = *job.mutable_pose_status();
  status.set_file_count(2);
  status.mutable_report()->set_photographs(2);
  status.mutable_report()->set_posed(2);
  *status.mutable_report()->mutable_text() = BlobOfBytes("a report");
  return job;
}

inline v1::Job SucceededExportJob() {
  v1::Job job;
  job.set_state(v1::Job::SUCCEEDED);
  job.mutable_export_()->set_format(v1::ExportSpec::GLB);
  job.mutable_export_()->set_model("projects/default/models/mic");
  v1::ExportResult& result = *job.mutable_export_status()->mutable_result();
  result.set_words("a mesh of 12 triangles");
  result.set_axes("z up, right-handed");
  result.add_files()->set_name("mesh.glb");
  *result.mutable_files(0)->mutable_blob() = BlobOfBytes("a mesh");
  return job;
}

// The requests that the fake received, and the responses to send. While a command runs, `mu` guards
// all fields.
struct FakeState {
  Mutex mu;
  // By method name: errors to return, one per call, before it answers normally.
  std::map<std::string, std::vector<absl::Status>> errors;
  std::map<std::string, int> calls;

  std::map<std::string, std::string> blobs;  // content by digest
  std::vector<std::string> writes;           // digests that were uploaded
  std::vector<v1::CreateSceneRequest> create_scene;
  std::vector<v1::CreateJobRequest> create_job;
  std::vector<v1::CreateJobRequest> validate_job;  // creates with validate_only
  v1::Job::Wait wait;                              // of the jobs in their responses
  std::string init_model, init_reason;             // the server's choice, of the same jobs
  std::vector<v1::WatchJobRequest> watch;
  std::vector<v1::RenderImageRequest> render;
  std::vector<absl::Duration> render_time_left;  // deadlines of the calls
  std::vector<v1::PromoteCheckpointRequest> promote;
  std::vector<v1::CreateShareRequest> create_share;
  std::vector<v1::UpdateModelRequest> update_model;
  std::vector<std::string> names;  // of get, delete, cancel and validate calls
  std::vector<v1::ListJobsRequest> list_jobs;
  std::vector<v1::RetryJobRequest> retry_job;
  std::vector<v1::ExtendJobRequest> extend_job;
  std::vector<v1::UpdateJobRequest> update_job;
  bool cancel_keeps = false;  // keep_checkpoint of the last cancel

  std::vector<v1::Scene> scenes;  // newest first, of listings (without files) and of get by name
  std::vector<v1::Job> jobs;      // of listings, and of get by name
  std::vector<v1::Worker> workers;
  v1::Access access;              // of every caller
  std::vector<v1::Model> models;  // of get by name
  v1::DescribeSceneResponse description;
  // Runs after the first half of a blob was sent. The second half then waits until the client
  // cancels.
  std::function<void()> on_read;
  std::function<void(const std::string& method)> on_call;  // runs before a call is answered
  std::string rendered_rgb;  // color views; empty: a text with the number of the call
  v1::RenderImageResponse render_response;  // of each view, but for its images and their size
  bool render_in_blobs = false;             // images come as blobs
  bool keep_blobs = false;                  // renders add none to `blobs`
  v1::Job pose_job = SucceededPoseJob();    // at its end
  std::vector<v1::CreateJobRequest> pose_requests;
  v1::Job export_job = SucceededExportJob();  // at its end
  std::string export_wait;                    // reason why a new export job waits
  std::pair<double, double> export_size;      // about, and at most
  std::vector<v1::CreateJobRequest> export_requests;
  v1::Job render_job = SucceededRenderJob();  // at its end
  std::vector<WatchScript> watch_scripts;     // one per stream
  v1::ValidateSceneResponse validation;
  size_t page_size_limit = 1000;
  std::function<void()> on_watch_message;  // after each message of a watch was sent
};

// A fake nerfd on a loopback port that responds from a FakeState.
class FakeServer {
 public:
  explicit FakeServer(FakeState* state);
  ~FakeServer();
  const std::string& address() const { return address_; }

 private:
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace nerf
