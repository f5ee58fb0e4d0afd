// Jobs, events, scenes and models as the store keeps them.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "common/messages/deterministic_bytes.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/records/basic_messages.h"
#include "server/queue/records/job_message.h"
#include "server/queue/records/resource_messages.h"
#include "server/queue/records/stored_job.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_text.h"

namespace nerf {
namespace {

// A job with something in every field.
Job FullJob() {
  Job job;
  job.key = {"default", "z"};
  job.display_name = "na\"me\n:7:";
  job.training.scene = "scene";
  job.training.config.set_method("ngp");
  job.training.config.set_seconds(0.1);
  job.training.config.set_test_every(0);
  (*job.training.config.mutable_settings())["b"] = std::string("\0", 1);
  (*job.training.config.mutable_settings())["a"] = "1";
  job.training.requested_config.set_seed(7);
  job.training.workers = {2, 3};
  job.training.gang_device = GangDevice::kCuda;
  job.origin.set_traceparent("00-trace-01");
  job.origin.set_request_id("r-7f3k2c81");
  job.labels = {{"team", "blue"}};
  job.priority = -3;
  job.crashed_on = {"worker-b"};
  job.keep_on_cancel = true;
  job.end_age = absl::FromUnixMicros(5'000'077);
  job.start_by = absl::FromUnixMicros(1'700'000'000'123'456);
  job.end_by = absl::FromUnixMicros(1'800'000'000'000'001);
  job.crop.add_size(0.1 + 0.2);
  job.training.init = InitReference{
      InitReference::Kind::kCheckpoint, {"default", "x"}, 9, "all", QueueHarness::Blob("init")};
  job.parts = {"x-part0", "x-part1"};
  job.part_models = {QueueHarness::Blob("tile 0"), QueueHarness::Blob("tile 1")};
  job.part_seconds = 0.1 + 0.2;
  job.merge_capability = "merge/ngp-tiles";
  job.part_of = "y";
  job.extension_of = "before";
  job.training.extend_capability = "extend/ngp";
  job.training.init_reason = "trained on the same capture";
  job.request_id = kRequestA;
  job.queue_reason = QueueReason::kWorkerDrained;
  job.attempt = 4;
  job.crashes_in_row = 2;
  job.crashed_since_checkpoint = true;
  v1::Progress& progress = *job.progress.mutable_training();
  progress.set_step(12);
  progress.set_eta_seconds(61.5);
  progress.set_fraction(0.1);
  progress.set_samples(1e15);
  (*progress.mutable_figures())["some_figure"] = 0.1 + 0.2;
  progress.set_preview_step(10);
  progress.set_psnr_preview(31.5);
  *progress.mutable_preview_image() = ToProto(QueueHarness::Blob("preview"));
  job.checkpoints = {QueueHarness::Checkpoint(5), QueueHarness::Checkpoint(6, 0.1 + 0.2)};
  job.checkpoints[0].seconds = 61.25;
  job.checkpoints[0].create_time = absl::FromUnixMicros(1234567);
  job.checkpoints[1].create_time = absl::UnixEpoch();
  job.checkpoints[1].promoted = true;
  v1::TrainingPreview& preview = job.previews.emplace_back();
  preview.set_step(10);
  preview.set_psnr(31.5);
  *preview.mutable_image() = ToProto(QueueHarness::Blob("preview"));
  job.best_preview_psnr = 0.1 + 0.2;
  job.final_psnr = std::numeric_limits<double>::infinity();
  job.error = {absl::StatusCode::kAborted,
               "TRAINING_DIVERGED",
               "loss",
               {{"step", "7"}},
               {QueueHarness::SceneProblem("f", "g", "h"), {}}};
  job.create_time = absl::FromUnixMicros(-5);
  job.end_time = absl::FromUnixMicros(8'000'099);
  job.last_event_sequence = 1ull << 40;
  return job;
}

// What comes back of a job, whose columns are given.
absl::StatusOr<Job> Read(const Job& job) {
  Job read;
  read.key = job.key;
  read.create_sequence = job.create_sequence;
  read.state = job.state;
  read.lease = job.lease;
  NERF_RETURN_IF_ERROR(FromRecord(ToRecord(job), &read));
  return read;
}

void ExpectSame(const Job& read, const Job& job) {
  EXPECT_EQ(ToRecord(read).DebugString(), ToRecord(job).DebugString());
  EXPECT_EQ(JobMessage(read, true).DebugString(), JobMessage(job, true).DebugString());
}

// The fields of `message` that are not set, of messages within it, too.
void FindUnset(const google::protobuf::Message& message, const std::string& path,
               std::vector<std::string>* unset) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor.field(i);
    const std::string name = path + field->name();
    if (field->is_repeated()) {
      if (reflection.FieldSize(message, field) == 0) unset->push_back(name);
      continue;
    }
    if (field->real_containing_oneof() != nullptr && !reflection.HasField(message, field)) continue;
    if (!reflection.HasField(message, field)) {
      unset->push_back(name);
    } else if (field->message_type() != nullptr) {
      FindUnset(reflection.GetMessage(message, field), name + ".", unset);
    }
  }
}

// Every field of the job's record is set, but for columns and for those that begin so: a field that
// is added, and not written, is lost at a restart.
void ExpectAllStored(const Job& job, std::vector<std::string> but) {
  but.insert(but.end(), {"job.name", "job.etag", "job.state", "job.wait", "job.workers",
                         "job.training_status.members"});
  std::vector<std::string> unset;
  FindUnset(ToRecord(job), "", &unset);
  std::erase_if(unset, [&](const std::string& path) {
    return std::any_of(but.begin(), but.end(),
                       [&](const std::string& start) { return path.starts_with(start); });
  });
  EXPECT_THAT(unset, testing::IsEmpty());
}

// Fields that trainings alone have, or whose test is theirs.
const std::vector<std::string> kOfTrainings = {
    "job.display_name", "job.labels", "job.priority",   "job.start",  "job.end",  "job.queue",
    "job.attempt",      "job.error",  "job.problems",   "job.create", "job.last", "request_id",
    "origin",           "crash",      "keep_on_cancel", "end_age"};

std::vector<std::string> And(std::vector<std::string> more) {
  more.insert(more.end(), kOfTrainings.begin(), kOfTrainings.end());
  return more;
}

TEST(RecordsTest, TrainingComesBackToTheBit) {
  Job job = FullJob();
  job.training.pose_job = "fox";
  job.awaits_poses = true;
  job.retry_of = "w";
  job.queue_message = "worker-a left";
  job.start_time = absl::FromUnixMicros(7'000'098);
  const absl::StatusOr<Job> read = Read(job);
  ASSERT_THAT(read, IsOk());
  ExpectSame(*read, job);
  EXPECT_EQ(TextOf(read->training), TextOf(job.training));
  EXPECT_EQ(read->checkpoints, job.checkpoints);
  QueueHarness::ExpectEqual(read->error, job.error);
  EXPECT_EQ(read->final_psnr, job.final_psnr);
  EXPECT_EQ(read->create_time, job.create_time);
  EXPECT_TRUE(AreEqual(read->crop, job.crop));
  EXPECT_EQ(read->parts, job.parts);
  EXPECT_EQ(read->part_models, job.part_models);
  EXPECT_TRUE(AreEqual(read->progress, job.progress));

  ExpectAllStored(
      job, {"job.training.config.", "job.training.crop.", "job.training_status.effective_config.",
            "job.training_status.progress.", "model"});
}

TEST(RecordsTest, StartFromAModelAndFarDeadlinesComeBack) {
  Job job = FullJob();
  job.training.init = InitReference{
      InitReference::Kind::kModel, {"default", "m"}, 0, "all", QueueHarness::Blob("model")};
  job.end_by = absl::FromUnixSeconds(200'000'000'000) + absl::Nanoseconds(7);  // year 8307
  const absl::StatusOr<Job> read = Read(job);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->training.init, job.training.init);
  EXPECT_EQ(read->end_by, job.end_by);
  EXPECT_EQ(EtagOf(*read), EtagOf(job));
}

TEST(RecordsTest, NewTrainingComesBack) {
  Job job;
  job.key = {"default", "new"};
  job.training.scene = "scene";
  const absl::StatusOr<Job> read = Read(job);
  ASSERT_THAT(read, IsOk());
  ExpectSame(*read, job);
  EXPECT_FALSE(read->training.init.has_value());
  EXPECT_EQ(read->error.code, absl::StatusCode::kOk);
  EXPECT_EQ(read->create_time, absl::InfinitePast());
  EXPECT_EQ(read->start_by, absl::InfiniteFuture());
  EXPECT_EQ(read->training.workers, WorkerCount());
}

internal::JobModel ModelOf(const std::string& feature, const std::string& capability) {
  internal::JobModel model;
  *model.mutable_blob() = ToProto(QueueHarness::Blob("model"));
  model.set_feature(feature);
  model.set_capability(capability);
  return model;
}

Job RenderJob() {
  Job job;
  job.key = {"default", "film"};
  job.kind = JobKind::kRender;
  v1::RenderSpec spec;
  spec.set_checkpoint("projects/default/jobs/j-1/checkpoints/7");
  spec.mutable_path()->mutable_scene()->set_frames(20);
  spec.add_channels(v1::RGB);
  spec.add_channels(v1::DEPTH);
  spec.set_movie(true);
  job.render = spec;
  job.model = ModelOf("style", "render+style/ngp");
  job.render_work = NewRenderWork(spec);
  job.render_work.parts[0] = {"worker-a", 3, false};
  job.render_work.parts[1] = {"", 2, true};
  job.render_work.frames[17] = {{QueueHarness::Blob("a"), QueueHarness::Blob("b")}, 0.1 + 0.2};
  job.render_work.movie = QueueHarness::Blob("movie");
  job.progress.set_frames_done(1);
  return job;
}

TEST(RecordsTest, RenderJobComesBackWithItsPartsAndFrames) {
  const Job job = RenderJob();
  const absl::StatusOr<Job> read = Read(job);
  ASSERT_THAT(read, IsOk());
  ExpectSame(*read, job);
  EXPECT_EQ(read->kind, JobKind::kRender);
  EXPECT_TRUE(AreEqual(read->model, job.model));
  EXPECT_EQ(read->render_work, job.render_work);
  EXPECT_EQ(read->progress.frames_done(), 1u);
  ExpectAllStored(job, And({"job.render."}));
  Job without = job;
  without.render_work.frames.clear();  // of a movie alone, once it is made
  EXPECT_EQ(Read(without)->render_work, without.render_work);
}

TEST(RecordsTest, ExportJobComesBackWithItsModelAndFiles) {
  Job job;
  job.key = {"default", "mesh"};
  job.kind = JobKind::kExport;
  job.model = ModelOf("export-2", "export+export-2/ngp");
  job.expected_bytes = 9.1e6;
  v1::ExportSpec spec;
  spec.set_format(v1::ExportSpec::GLB);
  spec.set_texture(1024);
  job.exporting = spec;
  job.progress.mutable_export_()->set_step("surface");
  v1::ExportFile& file = *job.export_result.emplace().add_files();
  file.set_name("mesh.glb");
  *file.mutable_blob() = ToProto(QueueHarness::Blob("mesh"));
  const absl::StatusOr<Job> read = Read(job);
  ASSERT_THAT(read, IsOk());
  ExpectSame(*read, job);
  EXPECT_EQ(read->kind, JobKind::kExport);
  EXPECT_TRUE(AreEqual(read->model, job.model));
  EXPECT_EQ(read->expected_bytes, job.expected_bytes);
  EXPECT_EQ(read->progress.export_().step(), "surface");
  ExpectAllStored(job, And({"job.export.", "job.export_status."}));
}

TEST(RecordsTest, PoseJobComesBackWithItsFilesStageAndReport) {
  Job job;
  job.key = {"default", "fox"};
  job.kind = JobKind::kPose;
  job.pose = {
      .files = {{"a \n:7:.jpg", QueueHarness::Blob("a")}, {"film.mp4", QueueHarness::Blob("b")}},
      .n_masks = 1,
      .has_films = true,
      .scene = "garden",
      .min_posed = 0.1 + 0.2,
      .film_frames = 77,
      .into = "yard",
      .camera = PoseCamera::kPerspective,
      .mask_below = 1.0 / 3};
  job.progress.mutable_pose()->set_doing("placing cameras");
  job.progress.mutable_pose()->set_eta_seconds(1.0 / 3);
  job.pose_report.emplace().set_photographs(50);
  job.pose_report->add_warnings("a warning");
  const absl::StatusOr<Job> read = Read(job);
  ASSERT_THAT(read, IsOk());
  ExpectSame(*read, job);
  EXPECT_EQ(read->kind, JobKind::kPose);
  EXPECT_EQ(read->pose, job.pose);
  EXPECT_EQ(read->progress.pose().doing(), "placing cameras");
  EXPECT_TRUE(read->pose_report.has_value());
  ExpectAllStored(job, And({"job.pose_status.progress.", "job.pose_status.report.", "model"}));
}

TEST(RecordsTest, WrongRecordsAreNamed) {
  const auto refused = [](const Job& job, auto change) {
    internal::JobRecord record = ToRecord(job);
    change(&record);
    Job read;
    read.key = job.key;
    const absl::Status status = FromRecord(record, &read);
    EXPECT_THAT(status, FailsWith(absl::StatusCode::kDataLoss, reason::kStoreCorrupt));
    return std::string(status.message());
  };
  using testing::HasSubstr;
  const Job training = FullJob(), render = RenderJob();
  EXPECT_THAT(refused(training, [](auto* record) { record->mutable_job()->clear_spec(); }),
              HasSubstr("projects/default/jobs/z is damaged: it has no spec"));
  EXPECT_THAT(refused(training, [](auto* record) { record->mutable_job()->set_queue_reason("?"); }),
              HasSubstr("queue_reason"));
  EXPECT_THAT(
      refused(training,
              [](auto* record) { record->mutable_job()->mutable_training()->set_scene("garden"); }),
      HasSubstr("scene"));
  EXPECT_THAT(
      refused(training, [](auto* record) { record->mutable_training()->clear_checkpoints(); }),
      HasSubstr("checkpoints"));
  EXPECT_THAT(refused(render,
                      [](auto* record) {
                        auto* status = record->mutable_job()->mutable_render_status();
                        status->mutable_frames(0)->set_index(20);
                      }),
              HasSubstr("frames"));
  EXPECT_THAT(refused(render, [](auto* record) { record->mutable_render()->clear_parts(); }),
              HasSubstr("parts"));
  EXPECT_THAT(refused(render,
                      [](auto* record) {
                        auto* path = record->mutable_job()->mutable_render()->mutable_path();
                        path->mutable_scene()->set_frames(4'000'000'000u);
                      }),
              HasSubstr("path"));
}

TEST(RecordsTest, DamagedBytesAreRefusedOrReadButNeverCrash) {
  int n_read = 0;
  for (const Job& job : {FullJob(), RenderJob()}) {
    const std::string body = DeterministicBytes(ToRecord(job));
    const auto read = [&](const std::string& bytes) {
      internal::JobRecord record;
      Job damaged;
      damaged.key = job.key;
      if (!record.ParseFromString(bytes) || !FromRecord(record, &damaged).ok()) return;
      ++n_read;
      BytesOf(damaged);
      JobMessage(damaged, true);
      BlobsOf(damaged);
    };
    for (size_t i = 0; i < body.size(); ++i) {
      read(body.substr(0, i));
      for (int bit : {0, 3, 6}) {
        std::string flipped = body;
        flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
        read(flipped);
      }
    }
  }
  EXPECT_GT(n_read, 0) << "some flips change a text";
}

TEST(RecordsTest, StatesHaveTheNumbersOfTheirNames) {
  for (const JobState state : kAllJobStates)
    EXPECT_EQ(v1::Job::State_Name(ToProto(state)), JobStateName(state));
}

TEST(RecordsTest, EventSceneModelAndProjectComeBack) {
  JobEvent event;
  event.time = absl::FromUnixMicros(17);
  event.state = JobState::kPausing;
  event.queue_reason = QueueReason::kPreempted;
  event.attempt = 3;
  event.worker = "worker-a";
  event.progress.mutable_training()->set_step(5);
  event.checkpoint_step = 4;
  JobEvent read_event;
  ASSERT_THAT(FromRecord(ToRecord(event), &read_event), IsOk());
  EXPECT_EQ(ToRecord(read_event).DebugString(), ToRecord(event).DebugString());
  EXPECT_EQ(read_event.state, event.state);
  EXPECT_EQ(read_event.time, event.time);

  SceneRecord scene;
  scene.key = {"default", "s"};
  scene.display_name = "x";
  scene.request_id = kRequestB;
  scene.files = {{"a", QueueHarness::Blob("a")}, {"b:1:", QueueHarness::Blob("bb")}};
  scene.byte_size = 3;
  scene.create_time = absl::FromUnixMicros(8);
  SceneRecord read_scene;
  read_scene.key = scene.key;
  ASSERT_THAT(FromRecord(ToRecord(scene), &read_scene), IsOk());
  EXPECT_EQ(read_scene, scene);

  ModelRecord model;
  model.key = {"default", "m"};
  model.display_name = "m";
  model.job = "one";
  model.step = 5;
  model.method = "ngp";
  model.blob = QueueHarness::Blob("m");
  model.preview_psnr = 31.0;
  model.tensors = QueueHarness::Checkpoint(1).tensors;
  model.crop.add_size(2);
  model.create_time = absl::FromUnixMicros(8);
  model.create_age = absl::FromUnixMicros(9);
  ModelRecord read_model;
  read_model.key = model.key;
  ASSERT_THAT(FromRecord(ToRecord(model), &read_model), IsOk());
  EXPECT_EQ(read_model.key, model.key);
  EXPECT_TRUE(AreEqual(ToRecord(read_model), ToRecord(model)));

  ProjectRecord project;
  project.project = "p";
  project.quota = {1, 2, uint64_t{1} << 52, 0.5, 4};
  project.retention = {absl::Hours(1), 5, absl::Milliseconds(7), absl::InfiniteDuration()};
  project.day = 20'000;
  project.device_seconds = 0.1 + 0.2;
  ProjectRecord read_project;
  read_project.project = "p";
  ASSERT_THAT(FromRecord(ToRecord(project), &read_project), IsOk());
  EXPECT_EQ(read_project, project);
}

}  // namespace
}  // namespace nerf
