#include "server/store/record_codec.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "server/store/export_codec.h"
#include "server/store/pose_codec.h"
#include "server/store/record_io.h"
#include "server/store/record_parts.h"
#include "server/store/render_codec.h"

namespace nerf {
namespace {

void PutOptional(RecordWriter& writer, std::string_view key, const std::optional<double>& value) {
  if (value.has_value()) writer.PutDouble(key, *value);
}

std::optional<double> GetOptional(RecordReader& reader, std::string_view key) {
  if (!reader.Has(key)) return std::nullopt;
  return reader.GetDouble(key);
}

// Name, type and shape ("3x4x5"; empty for a scalar) of each tensor in turn.
std::vector<std::string> EncodeTensors(const std::vector<TensorRecord>& tensors) {
  std::vector<std::string> strings;
  for (const TensorRecord& tensor : tensors) {
    strings.insert(strings.end(),
                   {tensor.name, tensor.dtype, fmt::format("{}", fmt::join(tensor.shape, "x"))});
  }
  return strings;
}

void DecodeTensors(RecordReader& reader, std::string_view key, std::vector<TensorRecord>* tensors) {
  const std::vector<std::string> strings = reader.GetList(key);
  for (size_t i = 0; i + 2 < strings.size(); i += 3) {
    TensorRecord tensor{strings[i], strings[i + 1], {}};
    std::string_view shape = strings[i + 2];
    while (!shape.empty()) {
      const size_t cross = shape.find('x');
      if (!ParseNumber(shape.substr(0, cross), &tensor.shape.emplace_back())) reader.Fail(key);
      shape = cross == std::string_view::npos ? std::string_view() : shape.substr(cross + 1);
    }
    tensors->push_back(std::move(tensor));
  }
}

// Keys of a progress record that are no figures.
bool IsFigure(std::string_view key) {
  return key != "step" && key != "eta_seconds" && !key.starts_with("preview") &&
         !key.starts_with("pose.");
}

std::string EncodeProgress(const JobProgress& progress) {
  RecordWriter writer;
  writer.PutNumber("step", progress.step);
  writer.PutDouble("eta_seconds", progress.eta_seconds);
  for (const auto& [name, value] : progress.figures) {
    if (IsFigure(name)) writer.PutDouble(name, value);
  }
  if (progress.preview_step.has_value()) writer.PutNumber("preview_step", *progress.preview_step);
  PutOptional(writer, "preview_psnr", progress.preview_psnr);
  if (progress.preview_image.has_value()) PutBlob(writer, "preview", *progress.preview_image);
  PutPoseStage(writer, progress.pose);
  return writer.Finish();
}

absl::Status DecodeProgress(std::string_view record, JobProgress* progress) {
  RecordReader reader(record);
  progress->step = reader.GetNumber<uint32_t>("step");
  progress->eta_seconds = reader.GetDouble("eta_seconds");
  for (const std::string& key : reader.Keys()) {
    // Keys of a newer version may have values that are not numbers.
    double value = 0;
    if (IsFigure(key) && ParseNumber(reader.Get(key), &value) && value != 0) {
      progress->figures[key] = value;
    }
  }
  if (reader.Has("preview_step")) {
    progress->preview_step = reader.GetNumber<uint32_t>("preview_step");
  }
  progress->preview_psnr = GetOptional(reader, "preview_psnr");
  if (reader.Has("preview.sha256")) progress->preview_image = GetBlob(reader, "preview");
  GetPoseStage(reader, &progress->pose);
  return reader.status();
}

std::string EncodeCheckpoint(const CheckpointRecord& checkpoint) {
  RecordWriter writer;
  writer.PutNumber("step", checkpoint.step);
  PutBlob(writer, "checkpoint", checkpoint.checkpoint_blob);
  PutBlob(writer, "model", checkpoint.model_blob);
  PutOptional(writer, "preview_psnr", checkpoint.preview_psnr);
  writer.PutDouble("seconds", checkpoint.seconds);
  writer.PutList("tensors", EncodeTensors(checkpoint.tensors));
  writer.PutTime("create_time", checkpoint.create_time);
  writer.PutNumber("promoted", checkpoint.promoted ? 1 : 0);
  return writer.Finish();
}

absl::Status DecodeCheckpoint(std::string_view record, CheckpointRecord* checkpoint) {
  RecordReader reader(record);
  checkpoint->step = reader.GetNumber<uint32_t>("step");
  checkpoint->checkpoint_blob = GetBlob(reader, "checkpoint");
  checkpoint->model_blob = GetBlob(reader, "model");
  checkpoint->preview_psnr = GetOptional(reader, "preview_psnr");
  checkpoint->seconds = reader.GetDouble("seconds");
  DecodeTensors(reader, "tensors", &checkpoint->tensors);
  checkpoint->create_time = reader.GetTime("create_time");
  checkpoint->promoted = reader.GetNumber<uint32_t>("promoted") != 0;
  return reader.status();
}

std::string EncodePreview(const PreviewRecord& preview) {
  RecordWriter writer;
  writer.PutNumber("step", preview.step);
  PutOptional(writer, "psnr", preview.psnr);
  PutBlob(writer, "image", preview.image);
  return writer.Finish();
}

absl::Status DecodePreview(std::string_view record, PreviewRecord* preview) {
  RecordReader reader(record);
  preview->step = reader.GetNumber<uint32_t>("step");
  preview->psnr = GetOptional(reader, "psnr");
  preview->image = GetBlob(reader, "image");
  return reader.status();
}

std::string EncodeInit(const InitReference& init) {
  RecordWriter writer;
  writer.Put("kind", init.kind == InitReference::Kind::kModel ? "model" : "checkpoint");
  writer.Put("project", init.source.project);
  writer.Put("source", init.source.id);
  writer.PutNumber("step", init.step);
  writer.Put("scope", init.scope);
  PutBlob(writer, "blob", init.blob);
  return writer.Finish();
}

absl::Status DecodeInit(std::string_view record, InitReference* init) {
  RecordReader reader(record);
  init->kind = reader.Get("kind") == "checkpoint" ? InitReference::Kind::kCheckpoint
                                                  : InitReference::Kind::kModel;
  init->source = {reader.Get("project"), reader.Get("source")};
  init->step = reader.GetNumber<uint32_t>("step");
  init->scope = reader.Get("scope");
  init->blob = GetBlob(reader, "blob");
  return reader.status();
}

std::string EncodeError(const JobError& error) {
  RecordWriter writer;
  if (error == JobError()) return {};
  writer.PutNumber("code", static_cast<uint64_t>(error.code));
  writer.Put("reason", error.reason);
  writer.Put("message", error.message);
  writer.PutMap("metadata", error.metadata);
  std::vector<std::string> problems;
  for (const JobProblem& problem : error.problems) {
    problems.insert(problems.end(), {problem.file, problem.field, problem.message});
  }
  writer.PutList("problems", problems);
  return writer.Finish();
}

absl::Status DecodeError(std::string_view record, JobError* error) {
  RecordReader reader(record);
  error->code = static_cast<absl::StatusCode>(reader.GetNumber<int>("code"));
  error->reason = reader.Get("reason");
  error->message = reader.Get("message");
  error->metadata = reader.GetMap("metadata");
  const std::vector<std::string> problems = reader.GetList("problems");
  for (size_t i = 0; i + 2 < problems.size(); i += 3) {
    error->problems.push_back({problems[i], problems[i + 1], problems[i + 2]});
  }
  return reader.status();
}

void PutConfig(RecordWriter& writer, const JobConfig& config) {
  writer.Put("config.method", config.method);
  writer.PutNumber("config.seed", config.seed);
  writer.Put("config.budget_kind", config.budget_kind);
  writer.PutDouble("config.budget_amount", config.budget_amount);
  writer.Put("config.background", config.background);
  writer.PutNumber("config.test_every", config.test_every);
  writer.PutMap("config.settings", config.settings);
}

JobConfig GetConfig(RecordReader& reader) {
  JobConfig config;
  config.method = reader.Get("config.method");
  config.seed = reader.GetNumber<uint32_t>("config.seed");
  config.budget_kind = reader.Get("config.budget_kind");
  config.budget_amount = reader.GetDouble("config.budget_amount");
  config.background = reader.Get("config.background");
  config.test_every = reader.GetNumber<uint32_t>("config.test_every");
  config.settings = reader.GetMap("config.settings");
  return config;
}

}  // namespace

std::string EncodeJobBody(const Job& job) {
  RecordWriter writer;
  writer.Put("kind", JobKindName(job.kind));
  writer.Put("display_name", job.display_name);
  writer.Put("scene", job.training.scene);
  if (!job.training.pose_job.empty()) {
    writer.Put("pose_job", job.training.pose_job);
    writer.PutNumber("awaits_poses", job.awaits_poses ? 1 : 0);
  }
  PutConfig(writer, job.training.config);
  writer.Put("requested_config", job.training.requested_config);
  if (job.training.init.has_value()) writer.Put("init", EncodeInit(*job.training.init));
  writer.Put("init_reason", job.training.init_reason);
  if (job.training.workers != WorkerCount()) {
    writer.PutNumber("workers.min", job.training.workers.min);
    writer.PutNumber("workers.max", job.training.workers.max);
    writer.PutNumber("workers.on_cuda", job.training.gang_device == GangDevice::kCuda ? 1 : 0);
  }
  if (job.kind == JobKind::kRender) {
    writer.Put("render", EncodeRender(job.render));
    PutRenderWork(writer, job.render_work);
  }
  if (job.kind == JobKind::kPose) writer.Put("pose", EncodePose(job.pose));
  if (job.pose_result.has_value()) writer.Put("pose_result", EncodePoseResult(*job.pose_result));
  if (job.kind == JobKind::kExport) writer.Put("export", EncodeExport(job.exporting));
  if (job.export_result.has_value()) {
    writer.Put("export_result", EncodeExportResult(*job.export_result));
  }
  writer.Put("request_id", job.request_id);
  writer.Put("origin.traceparent", job.origin.traceparent);
  writer.Put("origin.request_id", job.origin.request_id);
  if (job.priority != 0) writer.Put("priority", std::to_string(job.priority));
  writer.PutMap("labels", job.labels);
  writer.Put("crop", job.crop);
  writer.Put("retry_of", job.retry_of);
  writer.Put("extension_of", job.extension_of);
  writer.Put("extend_capability", job.training.extend_capability);
  writer.PutList("part_jobs", job.parts);
  std::vector<std::string> part_models;
  for (const BlobRef& model : job.part_models) {
    RecordWriter part;
    PutBlob(part, "model", model);
    part_models.push_back(part.Finish());
  }
  writer.PutList("part_models", part_models);
  if (!part_models.empty()) writer.PutDouble("part_seconds", job.part_seconds);
  writer.Put("merge_capability", job.merge_capability);
  writer.Put("part_of", job.part_of);
  writer.PutNumber("keep_on_cancel", job.keep_on_cancel ? 1 : 0);
  writer.Put("queue_reason", QueueReasonName(job.queue_reason));
  writer.Put("queue_message", job.queue_message);
  writer.PutNumber("attempt", job.attempt);
  writer.PutNumber("crashes_in_row", job.crashes_in_row);
  writer.PutNumber("crashed_since_checkpoint", job.crashed_since_checkpoint ? 1 : 0);
  writer.PutList("crashed_on", job.crashed_on);
  writer.Put("progress", EncodeProgress(job.progress));
  std::vector<std::string> checkpoints;
  for (const CheckpointRecord& checkpoint : job.checkpoints) {
    checkpoints.push_back(EncodeCheckpoint(checkpoint));
  }
  writer.PutList("checkpoints", checkpoints);
  std::vector<std::string> previews;
  for (const PreviewRecord& preview : job.previews) previews.push_back(EncodePreview(preview));
  writer.PutList("previews", previews);
  PutOptional(writer, "best_preview_psnr", job.best_preview_psnr);
  PutOptional(writer, "final_psnr", job.final_psnr);
  writer.Put("error", EncodeError(job.error));
  writer.PutTime("create_time", job.create_time);
  writer.PutTime("start_time", job.start_time);
  writer.PutTime("end_time", job.end_time);
  writer.PutTime("end_age", job.end_age);
  if (job.start_by != absl::InfiniteFuture()) writer.PutTime("start_by", job.start_by);
  if (job.end_by != absl::InfiniteFuture()) writer.PutTime("end_by", job.end_by);
  writer.PutNumber("last_event_sequence", job.last_event_sequence);
  return writer.Finish();
}

absl::Status DecodeJobBody(std::string_view body, Job* job) {
  RecordReader reader(body);
  job->kind = reader.GetNamed<JobKind>("kind", ParseJobKind);
  job->display_name = reader.Get("display_name");
  job->training.scene = reader.Get("scene");
  job->training.pose_job = reader.Get("pose_job");
  job->awaits_poses = reader.GetNumber<uint32_t>("awaits_poses") != 0;
  job->training.config = GetConfig(reader);
  job->training.requested_config = reader.Get("requested_config");
  if (reader.Has("init"))
    reader.Take(DecodeInit(reader.Get("init"), &job->training.init.emplace()));
  job->training.init_reason = reader.Get("init_reason");
  if (reader.Has("workers.max")) {
    job->training.workers.min = reader.GetNumber<uint32_t>("workers.min");
    job->training.workers.max = reader.GetNumber<uint32_t>("workers.max");
    if (reader.GetNumber<int>("workers.on_cuda") != 0) {
      job->training.gang_device = GangDevice::kCuda;
    }
  }
  if (job->kind == JobKind::kRender) {
    reader.Take(DecodeRender(reader.Get("render"), &job->render));
    GetRenderWork(reader, job->render, &job->render_work);
  }
  if (job->kind == JobKind::kPose) reader.Take(DecodePose(reader.Get("pose"), &job->pose));
  if (reader.Has("pose_result")) {
    reader.Take(DecodePoseResult(reader.Get("pose_result"), &job->pose_result.emplace()));
  }
  if (job->kind == JobKind::kExport) {
    reader.Take(DecodeExport(reader.Get("export"), &job->exporting));
  }
  if (reader.Has("export_result")) {
    reader.Take(DecodeExportResult(reader.Get("export_result"), &job->export_result.emplace()));
  }
  job->request_id = reader.Get("request_id");
  job->origin = {reader.Get("origin.traceparent"), reader.Get("origin.request_id")};
  job->priority = reader.GetNumber<int>("priority");
  job->labels = reader.GetMap("labels");
  job->crop = reader.Get("crop");
  job->retry_of = reader.Get("retry_of");
  job->extension_of = reader.Get("extension_of");
  job->training.extend_capability = reader.Get("extend_capability");
  job->parts = reader.GetList("part_jobs");
  for (const std::string& record : reader.GetList("part_models")) {
    RecordReader part(record);
    job->part_models.push_back(GetBlob(part, "model"));
    reader.Take(part.status());
  }
  job->part_seconds = reader.GetDouble("part_seconds");
  job->merge_capability = reader.Get("merge_capability");
  job->part_of = reader.Get("part_of");
  job->keep_on_cancel = reader.GetNumber<uint32_t>("keep_on_cancel") != 0;
  job->queue_reason = reader.GetNamed<QueueReason>("queue_reason", ParseQueueReason);
  job->queue_message = reader.Get("queue_message");
  job->attempt = reader.GetNumber<uint32_t>("attempt");
  job->crashes_in_row = reader.GetNumber<uint32_t>("crashes_in_row");
  job->crashed_since_checkpoint = reader.GetNumber<uint32_t>("crashed_since_checkpoint") != 0;
  job->crashed_on = reader.GetList("crashed_on");
  reader.Take(DecodeProgress(reader.Get("progress"), &job->progress));
  for (const std::string& record : reader.GetList("checkpoints")) {
    reader.Take(DecodeCheckpoint(record, &job->checkpoints.emplace_back()));
  }
  for (const std::string& record : reader.GetList("previews")) {
    reader.Take(DecodePreview(record, &job->previews.emplace_back()));
  }
  job->best_preview_psnr = GetOptional(reader, "best_preview_psnr");
  job->final_psnr = GetOptional(reader, "final_psnr");
  reader.Take(DecodeError(reader.Get("error"), &job->error));
  job->create_time = reader.GetTime("create_time");
  job->start_time = reader.GetTime("start_time");
  job->end_time = reader.GetTime("end_time");
  // Missing in records of older versions.
  if (reader.Has("end_age")) job->end_age = reader.GetTime("end_age");
  if (reader.Has("start_by")) job->start_by = reader.GetTime("start_by");
  if (reader.Has("end_by")) job->end_by = reader.GetTime("end_by");
  job->last_event_sequence = reader.GetNumber<uint64_t>("last_event_sequence");
  return reader.status();
}

std::string EncodeEventBody(const JobEvent& event) {
  RecordWriter writer;
  writer.PutTime("time", event.time);
  writer.Put("state", JobStateName(event.state));
  writer.Put("queue_reason", QueueReasonName(event.queue_reason));
  writer.PutNumber("attempt", event.attempt);
  writer.Put("worker", event.worker);
  writer.Put("progress", EncodeProgress(event.progress));
  writer.PutNumber("checkpoint_step", event.checkpoint_step);
  return writer.Finish();
}

absl::Status DecodeEventBody(std::string_view body, JobEvent* event) {
  RecordReader reader(body);
  event->time = reader.GetTime("time");
  event->state = reader.GetNamed<JobState>("state", ParseJobState);
  event->queue_reason = reader.GetNamed<QueueReason>("queue_reason", ParseQueueReason);
  event->attempt = reader.GetNumber<uint32_t>("attempt");
  event->worker = reader.Get("worker");
  reader.Take(DecodeProgress(reader.Get("progress"), &event->progress));
  event->checkpoint_step = reader.GetNumber<uint32_t>("checkpoint_step");
  return reader.status();
}

std::string EncodeSceneBody(const SceneRecord& scene) {
  RecordWriter writer;
  writer.Put("display_name", scene.display_name);
  writer.Put("request_id", scene.request_id);
  writer.PutTime("create_time", scene.create_time);
  writer.PutList("files", EncodeFiles(scene.files));
  return writer.Finish();
}

absl::Status DecodeSceneBody(std::string_view body, SceneRecord* scene) {
  RecordReader reader(body);
  scene->display_name = reader.Get("display_name");
  scene->request_id = reader.Get("request_id");
  scene->create_time = reader.GetTime("create_time");
  DecodeFiles(reader, "files", &scene->files);
  scene->byte_size = 0;
  for (const SceneFileRecord& file : scene->files) scene->byte_size += file.blob.byte_size;
  return reader.status();
}

std::string EncodeModelBody(const ModelRecord& model) {
  RecordWriter writer;
  writer.Put("display_name", model.display_name);
  writer.Put("request_id", model.request_id);
  writer.Put("job", model.job);
  writer.PutNumber("step", model.step);
  writer.Put("method", model.method);
  PutBlob(writer, "blob", model.blob);
  PutOptional(writer, "preview_psnr", model.preview_psnr);
  writer.PutList("tensors", EncodeTensors(model.tensors));
  writer.Put("crop", model.crop);
  writer.PutTime("create_time", model.create_time);
  writer.PutTime("create_age", model.create_age);
  return writer.Finish();
}

absl::Status DecodeModelBody(std::string_view body, ModelRecord* model) {
  RecordReader reader(body);
  model->display_name = reader.Get("display_name");
  model->request_id = reader.Get("request_id");
  model->job = reader.Get("job");
  model->step = reader.GetNumber<uint32_t>("step");
  model->method = reader.Get("method");
  model->blob = GetBlob(reader, "blob");
  model->preview_psnr = GetOptional(reader, "preview_psnr");
  DecodeTensors(reader, "tensors", &model->tensors);
  model->crop = reader.Get("crop");
  model->create_time = reader.GetTime("create_time");
  if (reader.Has("create_age")) model->create_age = reader.GetTime("create_age");
  return reader.status();
}

std::string EncodeProjectBody(const ProjectRecord& project) {
  RecordWriter writer;
  writer.PutNumber("max_queued_jobs", project.quota.max_queued_jobs);
  writer.PutNumber("max_running_jobs", project.quota.max_running_jobs);
  writer.PutNumber("max_stored_bytes", project.quota.max_stored_bytes);
  writer.PutDouble("max_device_seconds_per_day", project.quota.max_device_seconds_per_day);
  writer.PutNumber("max_renders", project.quota.max_renders);
  writer.PutNumber("max_ended_jobs", project.retention.max_ended_jobs);
  writer.PutDouble("ended_job_age", absl::ToDoubleSeconds(project.retention.ended_job_age));
  writer.PutDouble("unused_scene_age", absl::ToDoubleSeconds(project.retention.unused_scene_age));
  writer.PutDouble("model_age", absl::ToDoubleSeconds(project.retention.model_age));
  writer.PutNumber("day", static_cast<uint64_t>(project.day));
  writer.PutDouble("device_seconds", project.device_seconds);
  return writer.Finish();
}

absl::Status DecodeProjectBody(std::string_view body, ProjectRecord* project) {
  RecordReader reader(body);
  project->quota.max_queued_jobs = reader.GetNumber<uint64_t>("max_queued_jobs");
  project->quota.max_running_jobs = reader.GetNumber<uint64_t>("max_running_jobs");
  project->quota.max_stored_bytes = reader.GetNumber<uint64_t>("max_stored_bytes");
  project->quota.max_device_seconds_per_day = reader.GetDouble("max_device_seconds_per_day");
  project->quota.max_renders = reader.GetNumber<uint64_t>("max_renders");
  project->retention.max_ended_jobs = reader.GetNumber<uint64_t>("max_ended_jobs");
  const auto age = [&](std::string_view key) {
    return reader.Has(key) ? absl::Seconds(reader.GetDouble(key)) : absl::InfiniteDuration();
  };
  project->retention.ended_job_age = age("ended_job_age");
  project->retention.unused_scene_age = age("unused_scene_age");
  project->retention.model_age = age("model_age");
  project->day = static_cast<int64_t>(reader.GetNumber<uint64_t>("day"));
  project->device_seconds = reader.GetDouble("device_seconds");
  return reader.status();
}

}  // namespace nerf
