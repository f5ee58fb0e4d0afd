#include "tests/fuzz/sample_jobs.h"

#include "common/messages/blob_ref.h"
#include "server/queue/kinds/render_work.h"

namespace nerf {
namespace {

Job Training() {
  Job job;
  job.training.scene = "scene";
  job.training.config.set_method("ngp");
  job.training.config.set_samples(1e6);
  job.training.requested_config = job.training.config;
  job.training.init = InitReference{
      InitReference::Kind::kCheckpoint, {"default", "x"}, 9, "all", SampleBlob("init")};
  job.training.workers = {2, 3};
  job.labels = {{"team", "blue"}};
  job.progress.mutable_training()->set_step(12);
  (*job.progress.mutable_training()->mutable_figures())["some_figure"] = 0.5;
  CheckpointRecord& checkpoint = job.checkpoints.emplace_back();
  checkpoint.step = 5;
  checkpoint.checkpoint_blob = checkpoint.model_blob = SampleBlob("checkpoint");
  checkpoint.tensors = {{"grid", "F16", {2, 3}}};
  checkpoint.create_time = absl::UnixEpoch();
  job.previews.emplace_back().set_step(4);
  job.parts = {"part"};
  job.part_models = {SampleBlob("part")};
  job.error = {absl::StatusCode::kAborted, "TRAINING_DIVERGED", "loss", {{"step", "7"}}, {}};
  job.error.problems.emplace_back().set_file("f");
  job.crop.add_size(1);
  return job;
}

internal::JobModel SampleModel(const std::string& feature, const std::string& capability) {
  internal::JobModel model;
  *model.mutable_blob() = ToProto(SampleBlob("model"));
  model.set_feature(feature);
  model.set_capability(capability);
  return model;
}

Job Render() {
  Job job;
  job.kind = JobKind::kRender;
  v1::RenderSpec spec;
  spec.set_model("projects/default/models/m");
  spec.mutable_path()->mutable_scene()->set_frames(20);
  spec.add_channels(v1::RGB);
  spec.set_width(64);
  spec.set_height(48);
  spec.set_movie(true);
  job.render = spec;
  job.model = SampleModel("style", "render+style/ngp");
  job.render_work = NewRenderWork(spec);
  job.render_work.parts[0] = {"worker-a", 3, false};
  job.render_work.frames[17] = {{SampleBlob("a")}, 2.5};
  job.progress.set_frames_done(1);
  return job;
}

Job Export() {
  Job job;
  job.kind = JobKind::kExport;
  v1::ExportSpec spec;
  spec.set_model("projects/default/models/m");
  spec.set_format(v1::ExportSpec::GLB);
  job.exporting = spec;
  job.model = SampleModel("", "export/ngp");
  job.progress.mutable_export_()->set_step("surface");
  *job.export_result.emplace().add_files()->mutable_blob() = ToProto(SampleBlob("mesh"));
  return job;
}

Job Pose() {
  Job job;
  job.kind = JobKind::kPose;
  job.pose.files = {{"a.jpg", SampleBlob("a")}, {"b.mp4", SampleBlob("b")}};
  job.pose.has_films = true;
  job.pose.scene = "garden";
  job.progress.mutable_pose()->set_doing("placing cameras");
  job.pose_report.emplace().add_warnings("a warning");
  return job;
}

}  // namespace

BlobRef SampleBlob(const std::string& content) { return ToBlobRef(BlobOfBytes(content)); }

std::vector<Job> SampleJobs() {
  std::vector<Job> jobs = {Training(), Render(), Export(), Pose()};
  for (Job& job : jobs) job.key = {"default", "j"};
  return jobs;
}

}  // namespace nerf
