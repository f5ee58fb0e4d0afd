// Export jobs on a worker, from the order to the report of their end. A script stands in for
// nerf-engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/messages/rpc_status.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/scripted_agent.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr char kExportJob[] = "projects/default/jobs/mesh";

// Begins every stand-in: `out` is the folder that it was given, `model` the model's file.
constexpr char kExportHead[] = R"(#!/bin/sh
model=$2
for word in "$@"; do
  [ "$last" = --out ] && out=$word
  last=$word
done
)";
constexpr char kMadeMesh[] = R"(
echo '{"event":"size","bytes":1234.5,"at_most":true}'
echo '{"event":"exporting","step":"surface","share":0.5}'
cat "$model" > "${out}mesh.glb"
printf '%s' '{"event":"done","vertices":3,"triangles":1,"axes":"z up","words":"a mesh",'
echo "\"seconds\":0.5,\"file\":\"${out}mesh.glb\"}"
)";

class ExportRunTest : public AgentTest {
 protected:
  void UseEngine(const std::string& body) {
    const std::string path = dir_ / "engine.sh";
    std::ofstream(path) << kExportHead << body;
    fs::permissions(path, fs::perms::owner_all);
    options_.exporting.engine = path;
    options_.exporting.sandboxed = false;
  }

  void SendOrder(v1::ExportSpec::Format format = v1::ExportSpec::GLB, uint64_t epoch = 3) {
    v1::SynchronizeResponse message;
    v1::DesiredJob* desired = message.mutable_desired_job();
    desired->set_action(v1::DesiredJob::EXPORT);
    desired->set_job(kExportJob);
    desired->set_lease_epoch(epoch);
    desired->mutable_lease_ttl()->set_seconds(30);
    *desired->mutable_model_export()->mutable_file() = server_.AddBlob("the model");
    v1::ExportSpec* product = desired->mutable_model_export()->mutable_product();
    product->set_format(format);
    product->set_frame(v1::ExportSpec::BLENDER);
    product->set_baked(baked_);
    if (path_.kind_case() != v1::CameraPath::KIND_NOT_SET) *product->mutable_path() = path_;
    if (format == v1::ExportSpec::GLB) {
      for (const double number : {-1.5, 0.0, 2.0}) product->mutable_box()->add_center(number);
      for (const double number : {1.0, 2.0, 0.1}) product->mutable_box()->add_size(number);
      product->set_resolution(64);
      product->set_triangles(1000);
      product->set_texture(512);
    }
    Send(message);
    Settle();
  }

  v1::CameraPath path_;  // of orders
  bool baked_ = false;

  std::string Told(const std::string& name) { return ReadFile(dir_ / name, 1 << 20).value_or(""); }
};

TEST_F(ExportRunTest, MakesTheFileOfTheFetchedModelAndNamesItInItsReport) {
  UseEngine("echo \"$@\" > " + dir_.path() + "/flags\n" + kMadeMesh);
  Start();
  SendOrder();
  EXPECT_THAT(Told("flags"), HasSubstr("--format glb --frame blender --crop=-1.5,0,2,1,2,0.1 "
                                       "--resolution 64 --triangles 1000 --texture 512"));
  ASSERT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  const v1::JobReport report = *server_.last_report();
  EXPECT_EQ(report.job(), kExportJob);
  ASSERT_EQ(report.export_result().files_size(), 1);
  EXPECT_EQ(report.export_result().files(0).name(), "mesh.glb");
  EXPECT_EQ(server_.Blob(report.export_result().files(0).blob().sha256()), "the model");
  EXPECT_EQ(report.export_result().axes(), "z up");
  EXPECT_EQ(report.export_progress().step(), "surface");
  EXPECT_EQ(report.export_progress().max_bytes(), 1234.5);
  EXPECT_EQ(report.export_progress().expected_bytes(), 0);
  v1::SynchronizeResponse acknowledged;
  acknowledged.set_finished_acknowledged(kExportJob);
  Send(acknowledged);
  EXPECT_TRUE(agent_->idle());
  EXPECT_TRUE(fs::is_empty(Room() + "/jobs")) << "its folder is gone";
  EXPECT_TRUE(fs::is_empty(Room() + "/open")) << "the model is closed";
}

TEST_F(ExportRunTest, ViewerHasNoFrame) {
  UseEngine("echo \"$@\" > " + dir_.path() + R"(/flags
echo page > "${out}viewer.html"
echo "{\"event\":\"done\",\"file\":\"${out}viewer.html\",\"bytes\":5}"
)");
  Start();
  SendOrder(v1::ExportSpec::VIEWER);
  EXPECT_THAT(Told("flags"), HasSubstr("/ --format viewer\n"));
  EXPECT_THAT(Told("flags"), Not(HasSubstr("--frame")));
  ASSERT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  EXPECT_EQ(server_.last_report()->export_result().files(0).name(), "viewer.html");
}

TEST_F(ExportRunTest, BakedViewerIsAskedFor) {
  UseEngine("echo \"$@\" > " + dir_.path() + "/flags\nexit 2\n");
  Start();
  baked_ = true;
  SendOrder(v1::ExportSpec::VIEWER);
  EXPECT_THAT(Told("flags"), HasSubstr("--format viewer --baked"));
}

TEST_F(ExportRunTest, PathIsAFileBesideTheProductAndViewsAreAnArchive) {
  UseEngine("echo \"$@\" > " + dir_.path() + "/flags\ncp \"${out%/*}.cameras.json\" " +
            dir_.path() + R"(/cameras
echo zip > "$out"
echo "{\"event\":\"done\",\"file\":\"$out\",\"vertices\":2}"
)");
  Start();
  path_.mutable_keyframes()->set_frames(60);
  path_.mutable_keyframes()->add_keyframes()->set_fov_degrees(40);
  SendOrder(v1::ExportSpec::VIEWS);
  EXPECT_THAT(Told("flags"), HasSubstr("/views.zip --format views --frame blender --camera "));
  EXPECT_THAT(Told("flags"), Not(HasSubstr("--exported-cameras")));
  EXPECT_THAT(Told("cameras"), HasSubstr(R"("fov":40.0}],"loop":false,"seconds":2.0})"));
  ASSERT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  EXPECT_EQ(server_.last_report()->export_result().files(0).name(), "views.zip");
}

TEST_F(ExportRunTest, PathOfAnotherProgramIsForTheExportedCameras) {
  UseEngine("echo \"$@\" > " + dir_.path() + R"(/flags
echo "{\"event\":\"failed\",\"code\":\"INVALID_ARGUMENT\",\"reason\":\"\",\"message\":\"${out%/}.cameras.json: frames[0] is bad\"}"
exit 2
)");
  Start();
  path_.mutable_cameras()->add_cameras()->set_width(64);
  SendOrder(v1::ExportSpec::NGP_PATH);
  EXPECT_THAT(Told("flags"), HasSubstr("--format ngp-path"));
  EXPECT_THAT(Told("flags"), HasSubstr(" --exported-cameras"));
  ASSERT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_EQ(server_.last_report()->error().message(), "path: frames[0] is bad");
}

TEST_F(ExportRunTest, WhatTheEngineSaysOfTheModelFailsTheJobWithoutPathsOfThisMachine) {
  UseEngine(
      R"(echo "{\"event\":\"failed\",\"code\":\"INVALID_ARGUMENT\",\"reason\":\"\",\"message\":\"$model: a mesh needs a density\"}"
exit 2
)");
  Start();
  SendOrder();
  ASSERT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_EQ(server_.last_report()->error().message(), "a mesh needs a density");
  EXPECT_EQ(server_.last_report()->error().code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
}

TEST_F(ExportRunTest, BrokenExportIsACrashWhichTheServerTriesAgain) {
  for (const std::string& body :
       {std::string("kill -9 $$\n"), std::string("exit 1\n"), std::string("exit 0\n")}) {
    UseEngine(body);
    Start();
    SendOrder();
    EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED) << body;
    EXPECT_THAT(server_.last_report()->error().message(), HasSubstr("the export broke down"));
  }
}

TEST_F(ExportRunTest, FullDiskHandsTheJobBackForLackOfRoom) {
  UseEngine("echo once >> " + dir_.path() +
            R"(/runs
echo "{\"event\":\"failed\",\"code\":\"UNAVAILABLE\",\"reason\":\"STORE_READ_ONLY\",\"message\":\"${out}mesh.glb: No space left on device\"}"
exit 6
)");
  Start();
  SendOrder();
  ASSERT_EQ(server_.phase(), v1::JobReport::RELEASED);
  EXPECT_EQ(server_.last_report()->release_reason(), v1::JobReport::NO_ROOM);
  EXPECT_EQ(server_.last_report()->error().message(),
            "on the worker: mesh.glb: No space left on device");
  EXPECT_EQ(Told("runs"), "once\n") << "others wait for the worker";
}

TEST_F(ExportRunTest, FileThatWillNotFitIsGivenBackBeforeTheWork) {
  UseEngine(R"(echo '{"event":"size","bytes":1e18,"at_most":false}'
sleep 1000
)");
  Start();
  SendOrder();
  ASSERT_EQ(server_.phase(), v1::JobReport::RELEASED);
  EXPECT_EQ(server_.last_report()->release_reason(), v1::JobReport::NO_ROOM);
  EXPECT_THAT(server_.last_report()->error().message(),
              HasSubstr("the file has about 1000000000000.0 MB, and "));
  UseEngine("echo '{\"event\":\"size\",\"bytes\":1e18,\"at_most\":true}'\n" +
            std::string(kMadeMesh));
  SendOrder(v1::ExportSpec::GLB, 4);
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED) << "of a bound most is not used";
}

TEST_F(ExportRunTest, FileOutsideOfItsFolderIsNotUploaded) {
  dir_.Write("secret", "a token");
  for (const std::string& body :
       {"echo '{\"event\":\"done\",\"file\":\"" + dir_.path() + "/secret\"}'\n",
        "ln -s " + dir_.path() +
            "/secret \"${out}mesh.glb\"\necho \"{\\\"event\\\":\\\"done\\\",\\\"file\\\":\\\"${out}"
            "mesh.glb\\\"}\"\n"}) {
    UseEngine(body);
    Start();
    SendOrder();
    EXPECT_EQ(server_.phase(), v1::JobReport::FAILED) << body;
    EXPECT_FALSE(server_.last_report()->has_export_result());
  }
}

}  // namespace
}  // namespace nerf
