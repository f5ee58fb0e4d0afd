// nerfctl export against a scripted server, with a shell script in place of nerf-engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/files/file_io.h"
#include "common/messages/blob_ref.h"
#include "common/process/exit_code.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ExportTest : public ServiceTest {
 protected:
  const TempDir dir_, scripts_;
  // Its viewer files are its arguments but for the model, then the model.
  std::string engine_ = FakeEngine(scripts_, "echo $1 $3 >\"$4\"\ncat \"$2\" >>\"$4\"\n");

  CommandResult Export(const std::string& flag, const std::string& name) {
    return Run({"export", flag, name, "--out", dir_ / "mine.html", "--engine", engine_});
  }
  std::string Written() { return ReadFile(dir_ / "mine.html", 1 << 20).value_or("none"); }
  void AddCheckpoint(v1::Job* job, int step, const std::string& content) {
    state_.blobs[Sha256Hex(content)] = content;
    v1::Checkpoint& checkpoint = *job->mutable_training_status()->add_checkpoints();
    checkpoint.set_name(fmt::format("{}/checkpoints/{}", job->name(), step));
    *checkpoint.mutable_model_blob() = BlobOfBytes(content);
  }
};

TEST_F(ExportTest, ModelIsFetchedAndHandedToTheEngine) {
  AddModel("the model");
  const CommandResult result = Export("--model", "mic");
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(Written(), "export --out\nthe model");
  EXPECT_THAT(result.out, HasSubstr("viewer of mic in " + (dir_ / "mine.html")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "mine.html.safetensors.part"));
}

TEST_F(ExportTest, JobGivesItsNewestCheckpointOrTheNamedOne) {
  v1::Job& job = state_.jobs.emplace_back();
  job.set_name(kJob);
  const CommandResult none = Export("--job", "j-fake");
  EXPECT_EQ(none.exit_code, kNotFound);
  EXPECT_THAT(none.err, HasSubstr("job j-fake has no checkpoint yet"));
  AddCheckpoint(&job, 600, "earlier");
  AddCheckpoint(&job, 1200, "newest");
  EXPECT_EQ(Export("--job", "j-fake").exit_code, kOk);
  EXPECT_EQ(Written(), "export --out\nnewest");
  EXPECT_EQ(Export("--job", "j-fake/600").exit_code, kOk);
  EXPECT_EQ(Written(), "export --out\nearlier");
  EXPECT_EQ(Export("--job", "j-fake/601").exit_code, kNotFound);
}

TEST_F(ExportTest, EngineThatFailsLeavesNoFile) {
  AddModel("the model");
  engine_ = FakeEngine(scripts_, "echo \"$2: trained by method mlp\" >&2\nexit 2\n");
  const CommandResult result = Export("--model", "mic");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("trained by method mlp"));
  EXPECT_THAT(result.err, HasSubstr("nerfctl: mic was not exported"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  engine_ = "/no/engine";
  EXPECT_EQ(Export("--model", "mic").exit_code, kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

class ServerExportTest : public ExportTest {
 protected:
  ServerExportTest() { AddModel("the model"); }
  CommandResult Mesh(std::vector<std::string> flags = {}) {
    std::vector<std::string> words = {"export", "--model", "mic", "--out", dir_ / "out.glb"};
    words.insert(words.end(), flags.begin(), flags.end());
    return Run(words);
  }
};

TEST_F(ServerExportTest, FileThatAWorkerMadeIsDownloaded) {
  const CommandResult result =
      Mesh({"--frame", "blender", "--box=-1,0,0,1,2,3", "--triangles", "99", "--label", "for=print",
            "--priority", "7", "--progress", "plain", "--where", "server"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.export_requests.size(), 1u);
  const v1::Job& job = state_.export_requests[0].job();
  const v1::ExportSpec& spec = job.export_();
  EXPECT_EQ(spec.model(), "projects/default/models/mic");
  EXPECT_EQ(spec.format(), v1::ExportSpec::GLB);
  EXPECT_EQ(spec.frame(), v1::ExportSpec::BLENDER);
  EXPECT_EQ(spec.box().center(0), -1);
  EXPECT_EQ(spec.box().size(2), 3);
  EXPECT_EQ(spec.triangles(), 99u);
  EXPECT_EQ(job.labels().at("for"), "print");
  EXPECT_EQ(job.priority(), 7);
  EXPECT_EQ(ReadFile(dir_ / "out.glb", 100).value_or(""), "a mesh");
  EXPECT_THAT(result.out, HasSubstr("mesh of mic in"));
  EXPECT_THAT(result.out, HasSubstr("a mesh of 12 triangles; axes: z up, right-handed"));
  EXPECT_THAT(result.err, HasSubstr("exporting  surface"));
}

TEST_F(ServerExportTest, TexturesAndVolumesAreAskedForAndMadeHereWithTheSameFlags) {
  ASSERT_EQ(Mesh({"--texture", "512", "--where", "server"}).exit_code, kOk);
  ASSERT_EQ(
      Run({"export", "--model", "mic", "--out", dir_ / "out.vdb", "--where", "server"}).exit_code,
      kOk);
  ASSERT_EQ(state_.export_requests.size(), 2u);
  EXPECT_EQ(state_.export_requests[0].job().export_().texture(), 512u);
  EXPECT_EQ(state_.export_requests[1].job().export_().format(), v1::ExportSpec::VDB);
  engine_ = FakeEngine(scripts_, "shift 2\necho \"$@\" >\"$2\"\n");
  ASSERT_EQ(Mesh({"--texture", "512", "--engine", engine_}).exit_code, kOk);
  EXPECT_THAT(ReadFile(dir_ / "out.glb", 1000).value_or(""), HasSubstr("--texture 512"));
}

TEST_F(ServerExportTest, PathsAndViewsGoThroughKeyframesThereAndHere) {
  dir_.Write("keys.json", R"({"keyframes": [
      {"transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]], "fov": 40}]})");
  const auto run = [&](const std::string& file, std::vector<std::string> more) {
    std::vector<std::string> words = {"export", "--model", "mic", "--out", dir_ / file};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words).exit_code;
  };
  const std::vector<std::string> keys = {"--keyframes", dir_ / "keys.json", "--frames", "9",
                                         "--loop"};
  ASSERT_EQ(run("set.zip", {"--where", "server"}), kOk);
  ASSERT_EQ(run("v.nvdb", {"--where", "server"}), kOk);
  std::vector<std::string> there = keys;
  there.insert(there.end(), {"--format", "ngp-path", "--where", "server"});
  ASSERT_EQ(run("base_cam.json", there), kOk);
  ASSERT_EQ(state_.export_requests.size(), 3u);
  EXPECT_EQ(state_.export_requests[0].job().export_().format(), v1::ExportSpec::VIEWS);
  EXPECT_FALSE(state_.export_requests[0].job().export_().has_path());
  EXPECT_EQ(state_.export_requests[1].job().export_().format(), v1::ExportSpec::NVDB);
  const v1::ExportSpec& path = state_.export_requests[2].job().export_();
  EXPECT_EQ(path.format(), v1::ExportSpec::NGP_PATH);
  EXPECT_EQ(path.path().keyframes().frames(), 9u);
  EXPECT_TRUE(path.path().keyframes().loop());
  EXPECT_EQ(path.path().keyframes().keyframes(0).fov_degrees(), 40);

  engine_ = FakeEngine(scripts_,
                       "shift 2\nout=$2\necho \"$@\" >\"$out\"\n"
                       "cat \"$out.cameras.part\" >>\"$out\"\n");
  std::vector<std::string> here = keys;
  here.insert(here.end(), {"--format", "nerfstudio-path", "--engine", engine_});
  ASSERT_EQ(run("path.json", here), kOk);
  const std::string made = ReadFile(dir_ / "path.json", 10'000).value_or("");
  EXPECT_THAT(made, HasSubstr("--format nerfstudio-path"));
  EXPECT_THAT(made, HasSubstr("--exported-cameras"));
  EXPECT_THAT(made, HasSubstr(R"("fov":40.0}],"loop":true,"seconds":0.3)"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "path.json.cameras.part"));
}

TEST_F(ServerExportTest, BakedViewerIsMadeThereAndHere) {
  engine_ = FakeEngine(scripts_, "shift 2\necho \"$@\" >\"$2\"\n");
  const std::string file = dir_ / "mine.html";
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"export", "--model", "mic", "--out", file, "--baked"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  };
  ASSERT_EQ(run({"--engine", engine_}).exit_code, kOk);
  EXPECT_THAT(ReadFile(file, 1000).value_or(""), HasSubstr("--baked"));
  EXPECT_TRUE(state_.export_requests.empty());
  ASSERT_EQ(run({"--where", "server"}).exit_code, kOk);
  ASSERT_EQ(state_.export_requests.size(), 1u);
  EXPECT_TRUE(state_.export_requests[0].job().export_().baked());
}

TEST_F(ServerExportTest, DryRunTellsTheSizeAndMakesNothing) {
  state_.export_size = {5.6e6, 0};
  const CommandResult mesh = Mesh({"--dry-run", "--triangles", "99", "--where", "server"});
  ASSERT_EQ(mesh.exit_code, kOk) << mesh.err;
  EXPECT_EQ(mesh.out, "about 5.6 MB with 99 triangles\n");
  state_.export_size = {0, 12.3e6};
  EXPECT_EQ(
      Run({"export", "--model", "mic", "--out", dir_ / "v.vdb", "--dry-run", "--where", "server"})
          .out,
      "at most 12.3 MB\n");
  state_.export_size = {};
  EXPECT_EQ(Mesh({"--dry-run", "--where", "server"}).out, "its size is not known before\n");
  engine_ = FakeEngine(scripts_, "echo \"$@\"\n");
  EXPECT_THAT(Mesh({"--dry-run", "--engine", engine_, "--quiet"}).out, HasSubstr("--dry-run"));
  EXPECT_TRUE(state_.export_requests.empty());
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(ServerExportTest, FailedJobLeavesNoFileAndSaysWhy) {
  state_.export_job.set_state(v1::Job::FAILED);
  state_.export_job.clear_export_status();
  state_.export_job.mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  state_.export_job.mutable_error()->set_message("a mesh needs a density");
  const CommandResult result = Mesh({"--where", "server"});
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.err,
              HasSubstr("export job e-fake failed: a mesh needs a density (INVALID_ARGUMENT)"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(ServerExportTest, WithoutAWorkerItIsMadeHere) {
  engine_ = FakeEngine(scripts_, "cat \"$2\" >\"$4\"\n");
  EXPECT_EQ(Mesh({"--engine", engine_}).exit_code, kOk);
  EXPECT_EQ(ReadFile(dir_ / "out.glb", 100).value_or(""), "the model");
  EXPECT_TRUE(state_.export_requests.empty());
}

TEST_F(ServerExportTest, EveryFormatIsAskedForByEndingOrByName) {
  const std::pair<std::vector<std::string>, v1::ExportSpec::Format> cases[] = {
      {{"x.html"}, v1::ExportSpec::VIEWER},
      {{"x.ply"}, v1::ExportSpec::PLY},
      {{"x.glb"}, v1::ExportSpec::GLB},
      {{"x.vdb"}, v1::ExportSpec::VDB},
      {{"x.nvdb"}, v1::ExportSpec::NVDB},
      {{"x.zip"}, v1::ExportSpec::VIEWS},
      {{"x.ply", "--format", "points"}, v1::ExportSpec::POINTS},
      {{"x.ply", "--format", "splats"}, v1::ExportSpec::SPLATS},
      {{"x.spz"}, v1::ExportSpec::SPZ},
      {{"x.sog"}, v1::ExportSpec::SOG},
      {{"x.glb", "--format", "splats"}, v1::ExportSpec::SPLATS_GLB},
      {{"x.json", "--format", "cameras"}, v1::ExportSpec::CAMERAS},
      {{"x.json", "--format", "nerfstudio-path"}, v1::ExportSpec::NERFSTUDIO_PATH},
      {{"x", "--format", "ngp-path"}, v1::ExportSpec::NGP_PATH}};
  for (auto [words, format] : cases) {
    words[0] = dir_ / words[0];
    words.insert(words.begin(), {"export", "--model", "mic", "--where", "server", "--out"});
    ASSERT_EQ(Run(words).exit_code, kOk) << words[6];
    EXPECT_EQ(state_.export_requests.back().job().export_().format(), format);
  }
}

TEST_F(ServerExportTest, KeptBoxIsThatOfAnExportHereUnlessThereIsNone) {
  v1::CropBox& crop = *state_.models[0].mutable_crop();
  for (const double number : {-1.0, 0.5, 0.0}) crop.add_center(number);
  for (const double number : {1.0, 2.0, 3.0}) crop.add_size(number);
  engine_ = FakeEngine(scripts_, "shift 2\necho \"$@\" >\"$2\"\n");
  const auto arguments = [&](const std::string& file, std::vector<std::string> more) {
    more.insert(more.begin(), {"export", "--model", "mic", "--engine", engine_, "--out"});
    more.insert(more.begin() + 6, dir_ / file);
    EXPECT_EQ(Run(more).exit_code, kOk);
    return ReadFile(dir_ / file, 1000).value_or("");
  };
  EXPECT_THAT(arguments("a.glb", {}), HasSubstr("--crop=-1,0.5,0,1,2,3"));
  EXPECT_THAT(arguments("a.html", {"--crop=0,0,0,4,4,4"}), HasSubstr("--crop=0,0,0,4,4,4"));
  EXPECT_THAT(arguments("a.zip", {"--crop", "none"}), Not(HasSubstr("--crop")));
  EXPECT_THAT(arguments("a.json", {"--format", "cameras"}), Not(HasSubstr("--crop")));
}

TEST_F(ServerExportTest, FolderGetsAFileOfTheFormatsName) {
  engine_ = FakeEngine(scripts_, "shift 2\necho \"$@\" >\"$2\"\n");
  const std::string folder = dir_ / "exports";
  std::filesystem::create_directory(folder);
  for (const std::string& out : {folder, folder + "/"}) {
    const CommandResult result =
        Run({"export", "--model", "mic", "--engine", engine_, "--out", out, "--format", "splats"});
    EXPECT_EQ(result.exit_code, kOk) << result.err;
    EXPECT_THAT(result.out, HasSubstr(folder + "/splats.ply"));
    EXPECT_TRUE(std::filesystem::remove(folder + "/splats.ply"));
  }
}

TEST_F(ServerExportTest, EngineHereIsAskedForTheFileOfSplats) {
  engine_ = FakeEngine(scripts_, "shift 2\necho \"$@\" >\"$2\"\n");
  const std::string file = dir_ / "x.glb";
  EXPECT_EQ(
      Run({"export", "--model", "mic", "--engine", engine_, "--out", file, "--format", "splats"})
          .exit_code,
      kOk);
  EXPECT_THAT(ReadFile(file, 1000).value_or(""), HasSubstr("--format splats-glb"));
}

TEST_F(ServerExportTest, WrongFlagsAreUsageErrors) {
  const auto file = [&](const char* name) { return dir_ / name; };
  const struct {
    std::vector<std::string> words;  // after `export --model mic`
    const char* says;
  } cases[] = {
      {{}, "--out is required"},
      {{"--out", ""}, "--out: is empty"},
      {{"--out", file("out.obj")}, "--format: is needed"},
      {{"--out", file("out.json")}, "--format: is needed"},
      {{"--out", file("m.glb"), "--format", "obj"}, "--format: 'obj'"},
      {{"--out", file("m.glb"), "--job", "j-fake"}, "name one of --model and --job"},
      {{"--out", file("nowhere/out.glb")}, "--out: there is no folder"},
      {{"--out", file("m.glb"), "--box", "1,2,3"}, "--crop: '1,2,3'"},
      {{"--out", file("m.glb"), "--crop", "1,2,3,4,5,x"}, "--crop"},
      {{"--out", file("m.glb"), "--frame", "mars"}, "--frame: 'mars'"},
      {{"--out", file("m.glb"), "--resolution", "4"}, "--resolution: '4'"},
      {{"--out", file("m.glb"), "--label", "x"}, "--label"},
      {{"--out", file("m.glb"), "--texture", "9"}, "--texture: '9'"},
      {{"--out", file("m.ply"), "--texture", "512"}, "--texture: has no effect on PLY"},
      {{"--out", file("m.vdb"), "--texture", "512"}, "--texture: has no effect on VDB"},
      {{"--out", file("set"), "--format", "views"}, "--out: of views must end in .zip"},
      {{"--out", file("m.glb"), "--keyframes", file("no.json")},
       "--keyframes: has no effect on GLB"},
      {{"--out", file("p"), "--format", "ngp-path", "--keyframes", file("no.json")}, "no.json"},
      {{"--out", file("p"), "--format", "ngp-path", "--loop"}, "--loop"},
      {{"--out", file("set.zip"), "--frames", "10"}, "--frames"},
      {{"--out", file("m.glb"), "--baked"}, "--baked: has no effect on GLB"},
      {{"--mesh", file("m.glb")}, "'--mesh'; did you mean --out FILE.glb or --out FILE.ply?"},
      {{"--out", file("a.html"), "--splats", file("m.ply")}, "did you mean --format splats?"}};
  for (const auto& [flags, says] : cases) {
    std::vector<std::string> words = {"export", "--model", "mic"};
    words.insert(words.end(), flags.begin(), flags.end());
    const CommandResult result = Run(words);
    EXPECT_EQ(result.exit_code, kUsage) << result.err;
    EXPECT_THAT(result.err, HasSubstr(says));
  }
  EXPECT_EQ(Run({"export", "--model", "../mic", "--out", file("m.glb")}).exit_code, kUsage);
  const CommandResult several = Run({"export", "--out", file("no/m.ply"), "--baked", "--texture",
                                     "512", "--keyframes", file("no.json")});
  for (const char* says :
       {"name one of", "--baked:", "--texture:", "--keyframes: has", "no folder"})
    EXPECT_THAT(several.err, HasSubstr(says));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

}  // namespace
}  // namespace nerf
