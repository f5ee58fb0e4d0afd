// Golden texts of all printed forms: tables, JSON, errors, numbers.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/calls/session.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_printers.h"
#include "client/kinds/job_words.h"
#include "client/kinds/training_words.h"
#include "client/show/error_printer.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
#include "common/process/exit_code.h"
#include "common/process/server_address.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kNow = 1'790'000'000;

template <typename Message>
Message FromJson(const std::string& json) {
  Message message;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &message).ok()) << json;
  return message;
}

template <typename Print>
std::string Printed(OutputFormat format, const Print& print) {
  std::ostringstream out;
  print(Printer{out, format, false, absl::FromUnixSeconds(kNow)});
  return out.str();
}

v1::Job RunningJob() {
  auto job = FromJson<v1::Job>(R"({
    "name": "projects/default/jobs/j-7f3k2c81", "displayName": "fox", "state": "RUNNING",
    "workers": ["workers/gpu-0"], "attempt": 1,
    "training": {"scene": "projects/default/scenes/s-1", "config": {"seed": 1, "steps": 20000}},
    "trainingStatus": {"progress": {"step": 12400, "fraction": 0.62, "psnrPreview": 26.91,
                                    "etaSeconds": 41, "samples": 4e7, "loss": 0.00213,
                                    "seconds": 71}}})");
  job.mutable_create_time()->set_seconds(kNow - 71);
  return job;
}

TEST(OutputTest, JobTable) {
  auto failed = FromJson<v1::Job>(R"({
    "name": "projects/default/jobs/j-2", "state": "FAILED",
    "training": {"config": {"samples": 1e6}},
    "trainingStatus": {"progress": {"step": 7, "fraction": 0.999, "etaSeconds": 9}}})");
  const std::string text = Printed(OutputFormat::kTable, [&](const Printer& printer) {
    PrintJobs(printer, {RunningJob(), failed});
  });
  EXPECT_EQ(text,
            "ID          KIND      NAME  STATE    OF   PROGRESS     RESULT              "
            "WORKER  AGE  ETA   NOTE\n"
            "j-7f3k2c81  training  fox   RUNNING  s-1  12400/20000  26.91 dB (preview)  "
            "gpu-0   71s  0:41  -\n"
            "j-2         training  -     FAILED   -    7 (99%)      -                   -    "
            "   -    -     -\n");
}

TEST(OutputTest, EveryKindOfJobHasItsWordsInOneTable) {
  const std::string text = Printed(OutputFormat::kTable, [](const Printer& printer) {
    PrintJobs(printer,
              {FromJson<v1::Job>(R"({
           "name": "projects/default/jobs/r-1", "state": "RUNNING",
           "render": {"model": "projects/default/models/mic", "width": 640, "height": 480},
           "workers": ["workers/a", "workers/b"],
           "renderStatus": {"frameCount": 24, "framesDone": 2}})"),
               FromJson<v1::Job>(R"({
           "name": "projects/default/jobs/p-1", "state": "RUNNING",
           "pose": {"scene": "projects/default/scenes/garden"},
           "poseStatus": {"fileCount": 9, "progress": {"stage": 6, "stages": 7, "done": 12,
                          "of": 50, "doing": "placing cameras", "etaSeconds": 75}}})"),
               FromJson<v1::Job>(R"({
           "name": "projects/default/jobs/e-1", "state": "QUEUED", "wait": {"message": "busy"},
           "export": {"checkpoint": "projects/default/jobs/j-1/checkpoints/20", "format": "GLB"},
           "exportStatus": {"progress": {"step": "surface", "share": 0.4},
                            "expectedBytes": 5600000}})"),
               FromJson<v1::Job>(R"({"name": "projects/default/jobs/x-1", "state": "QUEUED"})")});
  });
  EXPECT_EQ(text,
            "ID   KIND    NAME  STATE    OF      PROGRESS                       RESULT       "
            "      WORKER  AGE  ETA   NOTE\n"
            "r-1  render  -     RUNNING  mic     2/24 frames                    640x480      "
            "      a, b    -    -     -\n"
            "p-1  pose    -     RUNNING  garden  6/7 placing cameras: 12 of 50  9 files      "
            "      -       -    1:15  -\n"
            "e-1  export  -     QUEUED   j-1/20  surface 40%                    GLB, about "
            "5.6 MB  -       -    -     busy\n"
            "x-1  -       -     QUEUED   -       -                              -            "
            "      -       -    -     -\n");
}

TEST(OutputTest, WhatIsDoneShowsNoStep) {
  for (const char* json : {R"({"state": "SUCCEEDED", "export": {"format": "GLB"},
            "exportStatus": {"progress": {"step": "surface", "share": 0.4}}})",
                           R"({"state": "SUCCEEDED", "pose": {},
            "poseStatus": {"progress": {"stage": 6, "stages": 7, "doing": "placing cameras"}}})"}) {
    const std::string text = Printed(OutputFormat::kTable, [&](const Printer& printer) {
      PrintJobs(printer, {FromJson<v1::Job>(json)});
    });
    EXPECT_THAT(text, testing::Not(testing::ContainsRegex("surface|placing"))) << text;
  }
}

TEST(OutputTest, PsnrIsNamedByWhatItIsOf) {
  v1::Job job = RunningJob();
  EXPECT_EQ(PsnrText(job), "preview PSNR 26.91 dB");
  job.mutable_training_status()->mutable_progress()->set_preview_step(12000);
  EXPECT_EQ(PsnrText(job), "preview PSNR 26.91 dB at step 12000");
  job.mutable_training_status()->set_final_psnr(28.5);
  EXPECT_EQ(PsnrText(job), "test PSNR 28.50 dB");
  EXPECT_EQ(PsnrText(v1::Job()), "");
}

TEST(OutputTest, UnknownFiguresAreAbsent) {
  v1::Job job;
  job.mutable_training();
  job.set_state(v1::Job::RUNNING);
  job.mutable_training_status()->mutable_progress()->set_step(1);
  const std::string text =
      Printed(OutputFormat::kTable, [&](const Printer& printer) { PrintJob(printer, job); });
  for (const char* figure : {"samples:", "loss:", "PSNR:", "speed:", "eta:", "trained for:"}) {
    EXPECT_THAT(text, Not(HasSubstr(figure)));
  }
}

TEST(OutputTest, NoteOfAJobIsWhyItWaitsOrFailedAndHowFarItsEvaluationIs) {
  EXPECT_EQ(NoteText(RunningJob()), "");
  v1::Job job = RunningJob();
  job.mutable_training_status()->mutable_progress()->set_evaluated_views(3);
  job.mutable_training_status()->mutable_progress()->set_evaluation_views(25);
  EXPECT_EQ(NoteText(job), "evaluating 3/25 test views");
  job.set_state(v1::Job::SUCCEEDED);
  EXPECT_EQ(NoteText(job), "");
  job.set_state(v1::Job::QUEUED);
  job.mutable_wait()->set_message("no worker is connected");
  EXPECT_EQ(NoteText(job), "no worker is connected");
  job.set_queue_reason("WORKER_LOST");
  EXPECT_EQ(NoteText(job), "its worker was lost (WORKER_LOST); no worker is connected");
  job.set_queue_reason("A_LATER_ONE");
  job.clear_wait();
  EXPECT_EQ(NoteText(job), "A_LATER_ONE");
  job.set_state(v1::Job::FAILED);
  EXPECT_EQ(QueueReasonText(job), "") << "the code of the past placement is not shown";
  job.clear_queue_reason();
  *job.mutable_error() = ToRpcStatus(
      WithReason(absl::InternalError("the engine died 3 times"), reason::kEngineCrashed));
  EXPECT_EQ(NoteText(job), "the engine died 3 times (ENGINE_CRASHED)");
  job.mutable_error()->set_message("two words\nand a line more");
  EXPECT_EQ(NoteText(job), "two words (ENGINE_CRASHED)");
  job.mutable_error()->set_message("word " + std::string(95, 'x') + " more");
  EXPECT_EQ(NoteText(job), "word " + std::string(95, 'x') + " ... (ENGINE_CRASHED)");
  job.mutable_error()->set_message(std::string(99, 'x') + "\u00e4 more");
  EXPECT_EQ(NoteText(job), std::string(99, 'x') + " ... (ENGINE_CRASHED)") << "a whole character";
}

TEST(OutputTest, OneQueuedJobForPeopleSaysWhyInWords) {
  v1::Job job = RunningJob();
  job.set_state(v1::Job::QUEUED);
  job.set_queue_reason("ENGINE_CRASHED");
  job.mutable_wait()->set_message("no worker is connected");
  const auto print = [&](const Printer& printer) { PrintJob(printer, job); };
  const std::string text = Printed(OutputFormat::kTable, print);
  EXPECT_THAT(text, HasSubstr("queued because:  the engine crashed (ENGINE_CRASHED)\n"));
  EXPECT_THAT(text, HasSubstr("waits because:   no worker is connected\n"));
  EXPECT_EQ(nlohmann::json::parse(Printed(OutputFormat::kJson, print))["queueReason"],
            "ENGINE_CRASHED")
      << "programs get the code alone";
}

TEST(OutputTest, OneJobForPeople) {
  v1::Job job = RunningJob();
  job.mutable_training_status()->mutable_progress()->set_preview_step(12000);
  *job.mutable_training_status()->add_checkpoints() = FromJson<v1::Checkpoint>(
      R"({"name": "projects/default/jobs/j-7f3k2c81/checkpoints/12000", "step": 12000,
          "checkpointBlob": {"sizeBytes": 56000000}, "psnr": 26.5})");
  const std::string text =
      Printed(OutputFormat::kTable, [&](const Printer& printer) { PrintJob(printer, job); });
  EXPECT_THAT(text, HasSubstr("RUNNING  projects/default/jobs/j-7f3k2c81\n"));
  EXPECT_THAT(text, HasSubstr("scene:         projects/default/scenes/s-1\n"));
  EXPECT_THAT(text, HasSubstr("step:          12400/20000\n"));
  EXPECT_THAT(text, HasSubstr("preview PSNR:  26.91 dB at step 12000\n"));
  EXPECT_THAT(text, HasSubstr("CHECKPOINT        STEP   PREVIEW dB  SIZE     AGE\n"
                              "j-7f3k2c81/12000  12000  26.50       56.0 MB  -\n"));
}

TEST(OutputTest, PicturesOfAJobAreSaidAsFarAsTheyAreKnown) {
  v1::Job job = RunningJob();
  auto& figures = *job.mutable_training_status()->mutable_progress()->mutable_figures();
  EXPECT_EQ(PicturesText(job), "");
  figures["trained_width"] = figures["trained_height"] = 200;
  EXPECT_EQ(PicturesText(job), "200x200");
  figures["picture_width"] = figures["picture_height"] = 200;
  figures["evaluated_width"] = figures["evaluated_height"] = 200;
  EXPECT_EQ(PicturesText(job), "200x200");
  EXPECT_FALSE(ArePicturesReduced(job));
  figures["picture_width"] = 400;
  EXPECT_EQ(PicturesText(job), "400x200, trained at 200x200");
  EXPECT_TRUE(ArePicturesReduced(job));
  EXPECT_THAT(Printed(OutputFormat::kTable, [&](const Printer& p) { PrintJob(p, job); }),
              HasSubstr("pictures:      400x200, trained at 200x200\n"));
}

TEST(OutputTest, EmptyListsAreAnEmptyArrayAHeaderOrNothing) {
  const auto print = [](const Printer& printer) { PrintScenes(printer, {}); };
  EXPECT_EQ(Printed(OutputFormat::kJson, print), "[]\n");
  EXPECT_EQ(Printed(OutputFormat::kJsonLines, print), "");
  EXPECT_EQ(Printed(OutputFormat::kName, print), "");
  EXPECT_EQ(Printed(OutputFormat::kTable, print), "ID  NAME  SIZE  AGE\n");
}

TEST(OutputTest, JsonIsTheProtobufMappingWithDefaultsAndNumbersAsNumbers) {
  const std::string text = Printed(
      OutputFormat::kJson, [](const Printer& printer) { PrintJobs(printer, {RunningJob()}); });
  const auto json = nlohmann::json::parse(text);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["trainingStatus"]["progress"]["step"], 12400);
  EXPECT_EQ(json[0]["trainingStatus"]["progress"]["samples"], 4e7);
  EXPECT_EQ(json[0]["state"], "RUNNING");
  EXPECT_EQ(json[0]["queueReason"], "");
  EXPECT_FALSE(json[0]["trainingStatus"].contains("finalPsnr")) << "unset must stay unset";
}

TEST(OutputTest, JsonHasTheKeysOfMapsInOrder) {
  v1::Job job;
  std::string expected;
  for (char key = 'a'; key <= 'z'; ++key) {
    (*job.mutable_training()->mutable_config()->mutable_settings())[{key}] = "1";
    expected += std::string(key == 'a' ? "" : ",") + '"' + key + R"(":"1")";
  }
  EXPECT_THAT(ToJson(job, /*pretty=*/false), HasSubstr(R"("settings":{)" + expected + "}"));
}

TEST(OutputTest, JsonLinesAndNamesAreOneALine) {
  v1::Model a, b;
  a.set_name("projects/default/models/a");
  b.set_name("projects/default/models/b");
  const auto print = [&](const Printer& printer) { PrintModels(printer, {a, b}); };
  EXPECT_EQ(Printed(OutputFormat::kName, print),
            "projects/default/models/a\nprojects/default/models/b\n");
  std::istringstream lines(Printed(OutputFormat::kJsonLines, print));
  std::string line;
  int n = 0;
  for (; std::getline(lines, line); ++n) {
    EXPECT_TRUE(nlohmann::json::parse(line).contains("displayName"));
  }
  EXPECT_EQ(n, 2);
}

TEST(OutputTest, WorkerAndSceneTables) {
  auto worker = FromJson<v1::Worker>(R"({"name": "workers/w-1", "state": "BUSY", "device": "cpu",
      "deviceDescription": "2 threads", "version": "0.1.0", "host": "box",
      "methods": ["ngp", "ngp-autograd"],
      "job": "projects/default/jobs/j-1"})");
  worker.mutable_last_seen_time()->set_seconds(kNow - 3);
  EXPECT_EQ(Printed(OutputFormat::kTable, [&](const Printer& p) { PrintWorkers(p, {worker}); }),
            "ID   STATE  DEVICE  METHODS           JOB  SEEN  HOST  VERSION  DESCRIPTION\n"
            "w-1  BUSY   cpu     ngp,ngp-autograd  j-1  3s    box   0.1.0    2 threads\n");
  // A drained worker still holds its job until it has written a checkpoint.
  worker.set_state(v1::Worker::DRAINING);
  worker.set_drained(true);
  const auto table = [&] {
    return Printed(OutputFormat::kTable, [&](const Printer& p) { PrintWorkers(p, {worker}); });
  };
  EXPECT_THAT(table(), HasSubstr("w-1  DRAINING  cpu"));
  worker.clear_job();
  EXPECT_THAT(table(), HasSubstr("w-1  DRAINED  cpu"));
  worker.set_drained(false);  // it is shutting down
  EXPECT_THAT(table(), HasSubstr("w-1  DRAINING  cpu"));
  auto scene = FromJson<v1::Scene>(R"({"name": "projects/default/scenes/s-1",
      "displayName": "mic", "sizeBytes": 3400000})");
  scene.mutable_create_time()->set_seconds(kNow - 3 * 3600);
  EXPECT_EQ(Printed(OutputFormat::kTable, [&](const Printer& p) { PrintScenes(p, {scene}); }),
            "ID   NAME  SIZE    AGE\n"
            "s-1  mic   3.4 MB  3h\n");
}

TEST(OutputTest, ListedScenesDoNotStateThatTheyHaveNoFiles) {
  const auto scene = FromJson<v1::Scene>(R"({"name": "projects/default/scenes/s-1",
      "displayName": "mic", "sizeBytes": 3400000})");
  for (const OutputFormat format : {OutputFormat::kJson, OutputFormat::kJsonLines}) {
    const std::string listed = Printed(format, [&](const Printer& p) {
      PrintScenes(p, {scene, scene});
    });
    EXPECT_THAT(listed, Not(HasSubstr("files")));
    EXPECT_THAT(listed, HasSubstr(R"("displayName":"mic")"));
    EXPECT_THAT(Printed(format, [&](const Printer& p) { PrintScene(p, scene); }),
                HasSubstr(R"("files":)"));
  }
  const auto list = nlohmann::json::parse(Printed(OutputFormat::kJson, [&](const Printer& p) {
    PrintScenes(p, {scene, scene});
  }));
  v1::Scene again;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(list.at(1).dump(), &again).ok());
  EXPECT_EQ(again.SerializeAsString(), scene.SerializeAsString());
}

TEST(OutputTest, EscapeSequencesOfOthersNeverReachTheTerminal) {
  v1::Scene scene;
  scene.set_name("projects/default/scenes/s-1");
  scene.set_display_name(
      "\x1b[2J\x1b]0;owned\x07 two\nlines \xC2\x9B"
      "31m \xE2\x80\xAE right");
  const std::string text =
      Printed(OutputFormat::kTable, [&](const Printer& p) { PrintScenes(p, {scene}); });
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
  EXPECT_THAT(text, Not(HasSubstr("\xC2\x9B")));
  EXPECT_THAT(text, Not(HasSubstr("\xE2\x80\xAE")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(OutputTest, ColumnsLineUpWithWideCharacters) {
  TextTable table({"A", "B"});
  table.AddRow({"\xC3\xA4\xC3\xB6", "1"});
  table.AddRow({"abcd", ""});
  std::ostringstream out;
  table.Print(out);
  EXPECT_EQ(out.str(), "A     B\n\xC3\xA4\xC3\xB6    1\nabcd  -\n");
}

TEST(OutputTest, Numbers) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1.0 kB");
  EXPECT_EQ(FormatBytes(999'999), "1.0 MB");
  EXPECT_EQ(FormatBytes(-1), "-");
  EXPECT_EQ(FormatCount(950), "950");
  EXPECT_EQ(FormatCount(2'310'000), "2.3M");
  EXPECT_EQ(FormatCount(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(FormatClock(48), "0:48");
  EXPECT_EQ(FormatClock(59.7), "1:00");
  EXPECT_EQ(FormatClock(3723), "1:02:03");
  EXPECT_EQ(FormatClock(0), "-");
  EXPECT_EQ(FormatClock(std::numeric_limits<double>::infinity()), "-");
  const absl::Time now = absl::FromUnixSeconds(kNow);
  EXPECT_EQ(FormatAge(now - absl::Seconds(119), now), "119s");
  EXPECT_EQ(FormatAge(now - absl::Minutes(5), now), "5m");
  EXPECT_EQ(FormatAge(now - absl::Hours(47), now), "47h");
  EXPECT_EQ(FormatAge(now - absl::Hours(72), now), "3d");
  EXPECT_EQ(FormatAge(now + absl::Seconds(10), now), "0s");
  EXPECT_EQ(FormatAge(absl::UnixEpoch(), now), "-");
}

std::string ErrorText(const absl::Status& status) {
  std::ostringstream err;
  PrintError(status, "default", err);
  return err.str();
}

TEST(OutputTest, ErrorsNameMessageAndReason) {
  EXPECT_EQ(
      ErrorText(WithReason(absl::NotFoundError("job j-1 not found"), reason::kResourceNotFound)),
      "nerfctl: job j-1 not found (RESOURCE_NOT_FOUND)\n");
  const auto missing = [](const std::string& name) {
    return ErrorText(WithReason(absl::NotFoundError(name + " not found"), reason::kResourceNotFound,
                                {{"resource", name}}));
  };
  EXPECT_EQ(missing("projects/default/models/m"),
            "nerfctl: model m not found (RESOURCE_NOT_FOUND)\n");
  EXPECT_EQ(missing("projects/default/jobs/j/checkpoints/7"),
            "nerfctl: checkpoint j/7 not found (RESOURCE_NOT_FOUND)\n");
  EXPECT_EQ(missing("projects/default/jobs/r"), "nerfctl: job r not found (RESOURCE_NOT_FOUND)\n");
  EXPECT_EQ(missing("tokens/t"), "nerfctl: token t not found (RESOURCE_NOT_FOUND)\n");
  EXPECT_EQ(ErrorText(absl::FailedPreconditionError("projects/default/scenes/s is used by "
                                                    "projects/default/jobs/j")),
            "nerfctl: scene s is used by j (FAILED_PRECONDITION)\n");
  EXPECT_EQ(missing("workers/w"), "nerfctl: worker w not found (RESOURCE_NOT_FOUND)\n");
  EXPECT_EQ(ErrorText(absl::InternalError("oh\x1b[31m no")), "nerfctl: oh?[31m no (INTERNAL)\n");
  EXPECT_EQ(ErrorText(absl::InvalidArgumentError("a: bad\nb: bad\n")),
            "nerfctl: a: bad\n  b: bad (INVALID_ARGUMENT)\n");
  EXPECT_EQ(ErrorText(absl::InternalError("")),
            "nerfctl: the call failed without a message (INTERNAL)\n");
}

TEST(OutputTest, SeveralViolationsComeOneALineAndOneIsNotRepeated) {
  EXPECT_EQ(ErrorText(InvalidFieldsError({{"config.steps", "must be above 0"}})),
            "nerfctl: config.steps: must be above 0 (FIELD_INVALID)\n");
  EXPECT_EQ(ErrorText(InvalidFieldsError({{"a", "bad"}, {"b", "worse"}})),
            "nerfctl: 2 fields are wrong (FIELD_INVALID)\n  a: bad\n  b: worse\n");
}

TEST(OutputTest, ErrorsAsJsonAreOneObjectALine) {
  const std::string line = ErrorJson(InvalidFieldsError({{"a", "bad\n"}, {"b", "worse"}}));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["event"], "error");
  EXPECT_EQ(json["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(json["reason"], "FIELD_INVALID");
  EXPECT_EQ(json["violations"][1]["field"], "b");
  EXPECT_EQ(LineJson("note", "a \"b\""), R"({"event":"note","message":"a \"b\""})");
}

TEST(OutputTest, ServerAddresses) {
  for (const char* good : {"127.0.0.1:50051", "localhost:1", "[::1]:65535", "gpu-1.lab:50051",
                           "unix:/run/nerfd.sock", "10.0.0.1:1,10.0.0.2:2", "[::1]:1,[fd::2]:2"}) {
    EXPECT_THAT(CheckServerAddress(good), IsOk()) << good;
  }
  for (const char* bad :
       {"", "localhost", "http://x:1", ":50051", "x:", "x:0", "x:65536", "x:5a", "a b:1", "x:1/y",
        "unix:", "dns:///x:1", "x:-1", "::1:5x", "10.0.0.1:1,", ",10.0.0.1:1", "10.0.0.1:1,b:2",
        "10.0.0.1:1,[::1]:2", "unix:/a,unix:/b"}) {
    EXPECT_THAT(CheckServerAddress(bad), StatusIs(absl::StatusCode::kInvalidArgument, "--server"))
        << bad;
  }
  EXPECT_EQ(GrpcTarget("a:1"), "a:1");
  EXPECT_EQ(GrpcTarget("10.0.0.1:1,10.0.0.2:2"), "ipv4:10.0.0.1:1,10.0.0.2:2");
  EXPECT_EQ(GrpcTarget("[::1]:1,[fd::2]:2"), "ipv6:[::1]:1,[fd::2]:2");
}

}  // namespace
}  // namespace nerf
