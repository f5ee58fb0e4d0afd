#include "server/store/record_codec.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/store/record_io.h"

namespace nerf {
namespace {

// ---- Items of lists (RecordReader::Rows).

struct BlobCells {
  using Cells = std::array<std::string, 2>;
  static Cells Of(const BlobRef& blob) { return {blob.sha256, std::to_string(blob.byte_size)}; }
  static bool Read(const Cells& cells, BlobRef* blob) {
    blob->sha256 = cells[0];
    return ParseNumber(cells[1], &blob->byte_size);
  }
};

struct FileCells {
  using Cells = std::array<std::string, 3>;
  static Cells Of(const SceneFileRecord& file) {
    return {file.path, file.blob.sha256, std::to_string(file.blob.byte_size)};
  }
  static bool Read(const Cells& cells, SceneFileRecord* file) {
    file->path = cells[0];
    return BlobCells::Read({cells[1], cells[2]}, &file->blob);
  }
};

// Name, type and shape ("3x4x5"; empty for a scalar).
struct TensorCells {
  using Cells = std::array<std::string, 3>;
  static Cells Of(const TensorRecord& tensor) {
    return {tensor.name, tensor.dtype, fmt::format("{}", fmt::join(tensor.shape, "x"))};
  }
  static bool Read(const Cells& cells, TensorRecord* tensor) {
    *tensor = {cells[0], cells[1], {}};
    std::string_view shape = cells[2];
    while (!shape.empty()) {
      const size_t cross = shape.find('x');
      if (!ParseNumber(shape.substr(0, cross), &tensor->shape.emplace_back())) return false;
      shape = cross == std::string_view::npos ? std::string_view() : shape.substr(cross + 1);
    }
    return true;
  }
};

struct ProblemCells {
  using Cells = std::array<std::string, 3>;
  static Cells Of(const JobProblem& problem) {
    return {problem.file, problem.field, problem.message};
  }
  static bool Read(const Cells& cells, JobProblem* problem) {
    *problem = {cells[0], cells[1], cells[2]};
    return true;
  }
};

struct PartCells {
  using Cells = std::array<std::string, 3>;
  static Cells Of(const RenderPart& part) {
    return {part.worker, std::to_string(part.epoch), part.done ? "1" : "0"};
  }
  static bool Read(const Cells& cells, RenderPart* part) {
    *part = {cells[0], 0, cells[2] == "1"};
    return ParseNumber(cells[1], &part->epoch);
  }
};

// ---- Fields of records (record_io.h).

template <typename Fields>
constexpr bool kReads = std::remove_cvref_t<Fields>::kReads;

constexpr auto kPoseStageFields = [](auto& fields, auto& pose) {
  if (!fields.Group("pose.stage", pose != PoseStage())) return;
  fields("pose.stage", pose.stage);
  fields("pose.stages", pose.stages);
  fields("pose.doing", pose.doing);
  fields("pose.done", pose.done);
  fields("pose.of", pose.of);
  fields("pose.seconds", pose.seconds);
  fields("pose.eta_seconds", pose.eta_seconds);
  fields("pose.matches_per_second", pose.matches_per_second);
};

// Keys of a progress record that are no figures.
bool IsFigure(std::string_view key) {
  return key != "step" && key != "eta_seconds" && !key.starts_with("preview") &&
         !key.starts_with("pose.");
}

void FigureFields(RecordWriter& fields, const std::map<std::string, double>& figures) {
  for (const auto& [name, value] : figures) {
    if (IsFigure(name)) fields(name, value);
  }
}

void FigureFields(RecordReader& fields, std::map<std::string, double>& figures) {
  for (const std::string& key : fields.Keys()) {
    // Keys of a newer version may have values that are not numbers.
    double value = 0;
    if (IsFigure(key) && ParseNumber(fields.Get(key), &value) && value != 0) figures[key] = value;
  }
}

constexpr auto kProgressFields = [](auto& fields, auto& progress) {
  fields("step", progress.step);
  fields("eta_seconds", progress.eta_seconds);
  FigureFields(fields, progress.figures);
  fields("preview_step", progress.preview_step);
  fields("preview_psnr", progress.preview_psnr);
  fields("preview", progress.preview_image);
  kPoseStageFields(fields, progress.pose);
};

constexpr auto kCheckpointFields = [](auto& fields, auto& checkpoint) {
  fields("step", checkpoint.step);
  fields("checkpoint", checkpoint.checkpoint_blob);
  fields("model", checkpoint.model_blob);
  fields("preview_psnr", checkpoint.preview_psnr);
  fields("seconds", checkpoint.seconds);
  fields.Rows("tensors", checkpoint.tensors, TensorCells());
  fields("create_time", checkpoint.create_time);
  fields("promoted", checkpoint.promoted);
};

constexpr auto kPreviewFields = [](auto& fields, auto& preview) {
  fields("step", preview.step);
  fields("psnr", preview.psnr);
  fields("image", preview.image);
};

// "checkpoint"; anything else is a model.
std::string_view SourceName(bool is_checkpoint) { return is_checkpoint ? "checkpoint" : "model"; }
absl::StatusOr<bool> ParseSource(std::string_view name) { return name == "checkpoint"; }

constexpr auto kInitFields = [](auto& fields, auto& init) {
  using Kind = InitReference::Kind;
  bool is_checkpoint = init.kind == Kind::kCheckpoint;
  fields.Named("kind", is_checkpoint, SourceName, ParseSource);
  if constexpr (kReads<decltype(fields)>)
    init.kind = is_checkpoint ? Kind::kCheckpoint : Kind::kModel;
  fields("project", init.source.project);
  fields("source", init.source.id);
  fields("step", init.step);
  fields("scope", init.scope);
  fields("blob", init.blob);
};

constexpr auto kErrorFields = [](auto& fields, auto& error) {
  if (!fields.Group("code", error != JobError())) return;
  int code = static_cast<int>(error.code);
  fields("code", code);
  if constexpr (kReads<decltype(fields)>) error.code = static_cast<absl::StatusCode>(code);
  fields("reason", error.reason);
  fields("message", error.message);
  fields("metadata", error.metadata);
  fields.Rows("problems", error.problems, ProblemCells());
};

constexpr auto kTrainingFields = [](auto& fields, auto& training) {
  fields("scene", training.scene);
  fields("pose_job", training.pose_job);
  fields.Message("config", training.config);
  fields.Message("requested_config", training.requested_config);
  fields.Nested("init", training.init, kInitFields);
  fields("init_reason", training.init_reason);
  if (fields.Group("workers.max", training.workers != WorkerCount())) {
    fields("workers.min", training.workers.min);
    fields("workers.max", training.workers.max);
    fields.AsNumber("workers.on_cuda", training.gang_device, GangDevice::kCuda);
  }
  fields("extend_capability", training.extend_capability);
};

constexpr auto kModelSourceFields = [](auto& fields, auto& model) {
  fields.Named("source", model.from_checkpoint, SourceName, ParseSource);
  fields("project", model.source.project);
  fields("id", model.source.id);
  fields("step", model.step);
  fields("model", model.model_blob);
  fields("feature", model.feature);
  fields("capability", model.capability);
  fields("crop", model.crop);
};

constexpr auto kRenderFields = [](auto& fields, auto& render) {
  kModelSourceFields(fields, render);
  fields("request", render.request);
  fields("frames", render.n_frames);
  fields("channels", render.n_channels);
  fields("images", render.images);
  fields("movie", render.movie);
  if constexpr (kReads<decltype(fields)>) {
    if (render.n_frames > kMaxFrames) fields.Fail("frames");
  }
};

struct IndexedFrame {
  uint32_t index = 0;
  FrameRecord frame;
};

constexpr auto kFrameFields = [](auto& fields, auto& indexed) {
  fields("index", indexed.index);
  fields("far", indexed.frame.far);
  fields.Rows("images", indexed.frame.images, BlobCells());
};

// Of the frames only those that are rendered are written.
constexpr auto kRenderWorkFields = [](auto& fields, const RenderSpec& render, auto& work) {
  fields.Rows("parts", work.parts, PartCells());
  bool has_frames = !work.frames.empty();
  std::vector<IndexedFrame> rendered;
  for (uint32_t i = 0; i < work.frames.size(); ++i) {
    if (!work.frames[i].images.empty()) rendered.push_back({i, work.frames[i]});
  }
  fields("has_frames", has_frames);
  fields.Records("frames", rendered, kFrameFields);
  fields("movie", work.movie);
  if constexpr (kReads<decltype(fields)>) {
    if (!fields.status().ok()) return;
    if (has_frames) work.frames.resize(render.n_frames);
    for (IndexedFrame& frame : rendered) {
      if (frame.index >= work.frames.size()) return fields.Fail("frames");
      work.frames[frame.index] = std::move(frame.frame);
    }
  }
};

constexpr auto kPoseFields = [](auto& fields, auto& pose) {
  fields.Rows("files", pose.files, FileCells());
  fields("has_films", pose.has_films);
  fields("n_masks", pose.n_masks);
  fields("scene", pose.scene);
  fields("min_posed", pose.min_posed);
  fields("film_frames", pose.film_frames);
  fields("into", pose.into);
  fields.AsNumber("camera", pose.camera, PoseCamera::kEquirectangular);
  fields("mask_below", pose.mask_below);
};

constexpr auto kPoseResultFields = [](auto& fields, auto& result) {
  fields("photographs", result.photographs);
  fields("usable", result.usable);
  fields("posed", result.posed);
  fields("points", result.points);
  fields("reprojection_error", result.reprojection_error);
  fields("parallax", result.parallax);
  fields("warnings", result.warnings);
  fields("again", result.again);
  fields("json", result.json);
  fields("text", result.text);
  fields("picture", result.picture);
};

constexpr auto kExportFields = [](auto& fields, auto& spec) {
  kModelSourceFields(fields, spec);
  fields("request", spec.request);
  fields("expected_bytes", spec.expected_bytes);
};

constexpr auto kExportResultFields = [](auto& fields, auto& result) {
  fields.Rows("files", result.files, FileCells());
  fields("report", result.report);
};

constexpr auto kPartModelFields = [](auto& fields, auto& model) { fields("model", model); };

constexpr auto kJobFields = [](auto& fields, auto& job) {
  fields.Named("kind", job.kind, JobKindName, ParseJobKind);
  fields("display_name", job.display_name);
  kTrainingFields(fields, job.training);
  if (fields.Group("awaits_poses", !job.training.pose_job.empty()))
    fields("awaits_poses", job.awaits_poses);
  if (job.kind == JobKind::kRender) {
    fields.Nested("render", job.render, kRenderFields);
    kRenderWorkFields(fields, job.render, job.render_work);
  }
  if (job.kind == JobKind::kPose) fields.Nested("pose", job.pose, kPoseFields);
  fields.Nested("pose_result", job.pose_result, kPoseResultFields);
  if (job.kind == JobKind::kExport) fields.Nested("export", job.exporting, kExportFields);
  fields.Nested("export_result", job.export_result, kExportResultFields);
  fields("request_id", job.request_id);
  fields("origin.traceparent", job.origin.traceparent);
  fields("origin.request_id", job.origin.request_id);
  if (fields.Group("priority", job.priority != 0)) fields("priority", job.priority);
  fields("labels", job.labels);
  fields("crop", job.crop);
  fields("retry_of", job.retry_of);
  fields("extension_of", job.extension_of);
  fields("part_jobs", job.parts);
  fields.Records("part_models", job.part_models, kPartModelFields);
  if (fields.Group("part_seconds", !job.part_models.empty()))
    fields("part_seconds", job.part_seconds);
  fields("merge_capability", job.merge_capability);
  fields("part_of", job.part_of);
  fields("keep_on_cancel", job.keep_on_cancel);
  fields.Named("queue_reason", job.queue_reason, QueueReasonName, ParseQueueReason);
  fields("queue_message", job.queue_message);
  fields("attempt", job.attempt);
  fields("crashes_in_row", job.crashes_in_row);
  fields("crashed_since_checkpoint", job.crashed_since_checkpoint);
  fields("crashed_on", job.crashed_on);
  fields.Nested("progress", job.progress, kProgressFields);
  fields.Records("checkpoints", job.checkpoints, kCheckpointFields);
  fields.Records("previews", job.previews, kPreviewFields);
  fields("best_preview_psnr", job.best_preview_psnr);
  fields("final_psnr", job.final_psnr);
  fields.Nested("error", job.error, kErrorFields);
  fields("create_time", job.create_time);
  fields("start_time", job.start_time);
  fields("end_time", job.end_time);
  fields("end_age", job.end_age);
  fields.Deadline("start_by", job.start_by);
  fields.Deadline("end_by", job.end_by);
  fields("last_event_sequence", job.last_event_sequence);
};

constexpr auto kEventFields = [](auto& fields, auto& event) {
  fields("time", event.time);
  fields.Named("state", event.state, JobStateName, ParseJobState);
  fields.Named("queue_reason", event.queue_reason, QueueReasonName, ParseQueueReason);
  fields("attempt", event.attempt);
  fields("worker", event.worker);
  fields.Nested("progress", event.progress, kProgressFields);
  fields("checkpoint_step", event.checkpoint_step);
};

constexpr auto kSceneFields = [](auto& fields, auto& scene) {
  fields("display_name", scene.display_name);
  fields("request_id", scene.request_id);
  fields("create_time", scene.create_time);
  fields.Rows("files", scene.files, FileCells());
};

constexpr auto kModelFields = [](auto& fields, auto& model) {
  fields("display_name", model.display_name);
  fields("request_id", model.request_id);
  fields("job", model.job);
  fields("step", model.step);
  fields("method", model.method);
  fields("blob", model.blob);
  fields("preview_psnr", model.preview_psnr);
  fields.Rows("tensors", model.tensors, TensorCells());
  fields("crop", model.crop);
  fields("create_time", model.create_time);
  fields("create_age", model.create_age);
};

constexpr auto kProjectFields = [](auto& fields, auto& project) {
  fields("max_queued_jobs", project.quota.max_queued_jobs);
  fields("max_running_jobs", project.quota.max_running_jobs);
  fields("max_stored_bytes", project.quota.max_stored_bytes);
  fields("max_device_seconds_per_day", project.quota.max_device_seconds_per_day);
  fields("max_renders", project.quota.max_renders);
  fields("max_ended_jobs", project.retention.max_ended_jobs);
  fields("ended_job_age", project.retention.ended_job_age);
  fields("unused_scene_age", project.retention.unused_scene_age);
  fields("model_age", project.retention.model_age);
  fields("day", project.day);
  fields("device_seconds", project.device_seconds);
};

template <typename Record, typename Fields>
std::string Encode(const Record& record, Fields fields) {
  RecordWriter writer;
  fields(writer, record);
  return writer.Finish();
}

template <typename Record, typename Fields>
absl::Status Decode(std::string_view body, Record* record, Fields fields) {
  RecordReader reader(body);
  fields(reader, *record);
  return reader.status();
}

}  // namespace

std::string EncodeJobBody(const Job& job) { return Encode(job, kJobFields); }
absl::Status DecodeJobBody(std::string_view body, Job* job) {
  return Decode(body, job, kJobFields);
}

std::string EncodeEventBody(const JobEvent& event) { return Encode(event, kEventFields); }
absl::Status DecodeEventBody(std::string_view body, JobEvent* event) {
  return Decode(body, event, kEventFields);
}

std::string EncodeSceneBody(const SceneRecord& scene) { return Encode(scene, kSceneFields); }
absl::Status DecodeSceneBody(std::string_view body, SceneRecord* scene) {
  const absl::Status status = Decode(body, scene, kSceneFields);
  scene->byte_size = 0;
  for (const SceneFileRecord& file : scene->files) scene->byte_size += file.blob.byte_size;
  return status;
}

std::string EncodeModelBody(const ModelRecord& model) { return Encode(model, kModelFields); }
absl::Status DecodeModelBody(std::string_view body, ModelRecord* model) {
  return Decode(body, model, kModelFields);
}

std::string EncodeProjectBody(const ProjectRecord& project) {
  return Encode(project, kProjectFields);
}
absl::Status DecodeProjectBody(std::string_view body, ProjectRecord* project) {
  return Decode(body, project, kProjectFields);
}

}  // namespace nerf
