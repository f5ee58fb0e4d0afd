#include "server/store/record_codec.h"

#include <cmath>
#include <limits>

#include "server/queue/kinds/render_work.h"
#include "server/store/record_io.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_text.h"

namespace nerf {
namespace {

// A job with something in every field.
Job FullJob() {
  Job job;
  job.display_name = "na\"me\n:7:";
  job.training.scene = "scene";
  job.training.config.set_method("ngp");
  job.training.config.set_seconds(0.1);
  job.training.config.set_test_every(0);
  (*job.training.config.mutable_settings())["b"] = std::string("\0", 1);
  (*job.training.config.mutable_settings())["a"] = "1";
  job.training.requested_config.set_seed(7);
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
  job.progress = {
      12, 61.5, {{"fraction", 0.1}, {"samples", 1e15}, {"rays", 4}, {"some_figure", 0.1 + 0.2}},
      10, 31.5, QueueHarness::Blob("preview")};
  job.checkpoints = {QueueHarness::Checkpoint(5), QueueHarness::Checkpoint(6, 0.1 + 0.2)};
  job.checkpoints[0].seconds = 61.25;
  job.checkpoints[0].create_time = absl::FromUnixMicros(1234567);
  job.checkpoints[1].create_time = absl::UnixEpoch();
  job.checkpoints[1].promoted = true;
  job.previews = {{4, std::nullopt, QueueHarness::Blob("a")},
                  {10, 31.5, QueueHarness::Blob("preview")}};
  job.best_preview_psnr = 0.1 + 0.2;
  job.final_psnr = std::numeric_limits<double>::infinity();
  job.error = {absl::StatusCode::kAborted,
               "TRAINING_DIVERGED",
               "loss",
               {{"step", "7"}},
               {{"f", "g", "h"}, {"", "", ""}}};
  job.create_time = absl::FromUnixMicros(-5);
  job.end_time = absl::FromUnixMicros(99);
  job.last_event_sequence = 1ull << 40;
  return job;
}

TEST(RecordCodecTest, RenderJobComesBackWithItsPartsAndFrames) {
  Job job;
  job.kind = JobKind::kRender;
  job.render = {true,
                {"default", "j-1"},
                7,
                QueueHarness::Blob("model"),
                "style",
                "render+style/ngp",
                "a box",
                "",
                std::string("\x0a\x00", 2),
                20,
                2,
                true,
                true};
  job.render_work = NewRenderWork(job.render);
  job.render_work.parts[0] = {"worker-a", 3, false};
  job.render_work.parts[1] = {"", 2, true};
  job.render_work.frames[17] = {{QueueHarness::Blob("a"), QueueHarness::Blob("b")}, 0.1 + 0.2};
  job.render_work.movie = QueueHarness::Blob("movie");
  Job read;
  ASSERT_THAT(DecodeJobBody(EncodeJobBody(job), &read), IsOk());
  EXPECT_EQ(read.kind, JobKind::kRender);
  EXPECT_EQ(read.render, job.render);
  EXPECT_EQ(read.render_work, job.render_work);
  EXPECT_EQ(EncodeJobBody(read), EncodeJobBody(job));
}

TEST(RecordCodecTest, ExportJobComesBackWithItsSourceAndFiles) {
  Job job;
  job.kind = JobKind::kExport;
  static_cast<ModelSource&>(job.exporting) = {
      true, {"default", "j-1"}, 7, QueueHarness::Blob("model"), "style", "export/ngp", "box", ""};
  job.exporting.expected_bytes = 9.1e6;
  job.exporting.request = std::string("\x0a\x00", 2);
  job.export_result = ExportResult{{{"mesh.glb", QueueHarness::Blob("mesh")}}, "report"};
  Job read;
  ASSERT_THAT(DecodeJobBody(EncodeJobBody(job), &read), IsOk());
  EXPECT_EQ(read.kind, JobKind::kExport);
  EXPECT_EQ(read.exporting, job.exporting);
  EXPECT_EQ(read.export_result, job.export_result);
  EXPECT_EQ(EncodeJobBody(read), EncodeJobBody(job));
}

TEST(RecordCodecTest, PoseJobComesBackWithItsFilesStageAndReport) {
  Job job;
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
  job.progress.pose = {6, 7, "placing cameras", 12, 50, 0.1 + 0.2, 1.0 / 3, 1e300};
  job.pose_result = PoseResult{50,
                               49,
                               48,
                               12345,
                               0.1 + 0.2,
                               1e-300,
                               {"a warning", ""},
                               {"again"},
                               QueueHarness::Blob("json"),
                               std::nullopt,
                               QueueHarness::Blob("picture")};
  Job read;
  ASSERT_THAT(DecodeJobBody(EncodeJobBody(job), &read), IsOk());
  EXPECT_EQ(read.kind, JobKind::kPose);
  EXPECT_EQ(read.pose, job.pose);
  EXPECT_EQ(read.progress, job.progress);
  EXPECT_EQ(read.pose_result, job.pose_result);
  EXPECT_EQ(EncodeJobBody(read), EncodeJobBody(job));
}

TEST(RecordCodecTest, TrainingComesBackWithItsPoseJob) {
  Job job;
  job.training.scene = "garden";
  job.training.pose_job = "fox";
  job.awaits_poses = true;
  Job read;
  ASSERT_THAT(DecodeJobBody(EncodeJobBody(job), &read), IsOk());
  EXPECT_EQ(TextOf(read.training), TextOf(job.training));
  EXPECT_TRUE(read.awaits_poses);
  Job without;
  ASSERT_THAT(DecodeJobBody(EncodeJobBody(Job()), &without), IsOk());
  EXPECT_FALSE(without.awaits_poses);
}

TEST(RecordCodecTest, KeyThatComesTwiceIsRefused) {
  RecordWriter writer;
  writer.Put("parts", "a");
  writer.Put("parts", "b");
  const std::string record = writer.Finish();
  const RecordReader reader(record);
  EXPECT_THAT(reader.status(), FailsWith(absl::StatusCode::kDataLoss, reason::kStoreCorrupt));
  EXPECT_THAT(std::string(reader.status().message()), ::testing::HasSubstr("parts"));
}

TEST(RecordCodecTest, JobComesBackToTheBit) {
  const Job job = FullJob();
  Job read;
  ASSERT_THAT(DecodeJobBody(EncodeJobBody(job), &read), IsOk());
  EXPECT_EQ(read.progress, job.progress);
  EXPECT_EQ(TextOf(read.training), TextOf(job.training));
  EXPECT_EQ(read.checkpoints, job.checkpoints);
  EXPECT_EQ(read.previews, job.previews);
  EXPECT_EQ(read.error, job.error);
  EXPECT_EQ(read.best_preview_psnr, job.best_preview_psnr);
  EXPECT_EQ(read.final_psnr, job.final_psnr);
  EXPECT_EQ(read.create_time, job.create_time);
  EXPECT_EQ(read.start_time, absl::InfinitePast());
  EXPECT_EQ(EncodeJobBody(read), EncodeJobBody(job));
}

TEST(RecordCodecTest, PartsComeBack) {
  const Job job = FullJob();
  Job read;
  ASSERT_THAT(DecodeJobBody(EncodeJobBody(job), &read), IsOk());
  EXPECT_EQ(read.parts, job.parts);
  EXPECT_EQ(read.part_models, job.part_models);
  EXPECT_EQ(read.part_seconds, job.part_seconds);
  EXPECT_EQ(read.merge_capability, job.merge_capability);
  EXPECT_EQ(read.part_of, job.part_of);
  EXPECT_EQ(read.extension_of, job.extension_of);
}

// As version 0.1.0 wrote it: a key for each figure, some of them 0.
TEST(RecordCodecTest, ProgressOfAnOlderStoreIsRead) {
  RecordWriter progress;
  progress("step", 7);
  for (const char* key : {"fraction", "samples", "loss", "eta_seconds"}) {
    progress(key, 0.25);
  }
  progress("rays", 0.0);
  progress("evaluated_views", 3);
  progress.Put("a_text_of_tomorrow", "y");
  RecordWriter body;
  body.Put("progress", progress.Finish());
  Job read;
  ASSERT_THAT(DecodeJobBody(body.Finish(), &read), IsOk());
  JobProgress expected;
  expected.step = 7;
  expected.eta_seconds = 0.25;
  expected.figures = {
      {"evaluated_views", 3}, {"fraction", 0.25}, {"loss", 0.25}, {"samples", 0.25}};
  EXPECT_EQ(read.progress, expected);
}

TEST(RecordCodecTest, EmptyRecordIsADefaultJob) {
  Job read;
  ASSERT_THAT(DecodeJobBody("", &read), IsOk());
  EXPECT_FALSE(read.training.init.has_value());
  EXPECT_EQ(read.error, JobError());
}

TEST(RecordCodecTest, KeysOfANewerVersionAreIgnored) {
  RecordWriter newer;
  newer.Put("display_name", "x");
  newer.Put("a_field_of_tomorrow", "y");
  Job read;
  ASSERT_THAT(DecodeJobBody(newer.Finish(), &read), IsOk());
  EXPECT_EQ(read.display_name, "x");
}

TEST(RecordCodecTest, DamagedRecordsAreRefusedOrReadButNeverCrash) {
  const std::string body = EncodeJobBody(FullJob());
  int n_refused = 0;
  for (size_t length = 0; length < body.size(); ++length) {
    Job read;
    n_refused += !DecodeJobBody(body.substr(0, length), &read).ok();
  }
  for (size_t i = 0; i < body.size(); ++i) {
    for (int bit : {0, 3, 6}) {
      std::string flipped = body;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      Job read;
      n_refused += !DecodeJobBody(flipped, &read).ok();
    }
  }
  EXPECT_GT(n_refused, static_cast<int>(body.size())) << "most truncations and many flips";
  Job read;
  EXPECT_THAT(DecodeJobBody("garbage", &read),
              FailsWith(absl::StatusCode::kDataLoss, reason::kStoreCorrupt));
}

TEST(RecordCodecTest, EventSceneAndModelComeBack) {
  JobEvent event;
  event.time = absl::FromUnixMicros(17);
  event.state = JobState::kPausing;
  event.queue_reason = QueueReason::kPreempted;
  event.attempt = 3;
  event.worker = "worker-a";
  event.progress.step = 5;
  event.checkpoint_step = 4;
  JobEvent read_event;
  ASSERT_THAT(DecodeEventBody(EncodeEventBody(event), &read_event), IsOk());
  EXPECT_EQ(read_event, event);

  SceneRecord scene;
  scene.display_name = "x";
  scene.request_id = kRequestB;
  scene.files = {{"a", QueueHarness::Blob("a")}, {"b:1:", QueueHarness::Blob("bb")}};
  scene.byte_size = 3;
  scene.create_time = absl::FromUnixMicros(8);
  SceneRecord read_scene;
  ASSERT_THAT(DecodeSceneBody(EncodeSceneBody(scene), &read_scene), IsOk());
  EXPECT_EQ(read_scene, scene);

  ModelRecord model;
  model.display_name = "m";
  model.job = "one";
  model.step = 5;
  model.method = "ngp";
  model.blob = QueueHarness::Blob("m");
  model.preview_psnr = 31.0;
  model.tensors = QueueHarness::Checkpoint(1).tensors;
  model.crop = std::string("\x0a\x00box", 5);
  model.create_time = absl::FromUnixMicros(8);
  ModelRecord read_model;
  ASSERT_THAT(DecodeModelBody(EncodeModelBody(model), &read_model), IsOk());
  EXPECT_EQ(read_model, model);
}

}  // namespace
}  // namespace nerf
