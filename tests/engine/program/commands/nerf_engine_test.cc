// Runs the built nerf-engine as its users do: arguments, output, exit codes, signals.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "common/files/file_io.h"
#include "common/process/child_process.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/method_list/settings_help.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/simd_path.h"
#include "engine/methods/ngp_autograd/autograd_library.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/engine/scene/posing/pose_fixture.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out, err;

  // The last line of the output, as JSON.
  Json Last() const {
    std::string text = out.substr(0, out.find_last_not_of('\n') + 1);
    const size_t newline = text.rfind('\n');
    return Json::parse(newline == std::string::npos ? text : text.substr(newline + 1), nullptr,
                       false);
  }
};

// Sets a variable for the processes that a test starts.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() { unsetenv(name_); }

 private:
  const char* const name_;
};

// Runs `command` until its output contains `sign`, then sends `signal`. Returns the exit code, or
// 128 + signal if a signal killed it. Writes the output to out_file.
int ExitCodeAfterSignal(const std::string& command, const std::string& out_file,
                        const std::string& sign, int signal) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(in.get(), STDOUT_FILENO);
    dup2(in.get(), STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    _exit(127);
  }
  in.Reset();
  std::string said;
  bool sent = false;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(out.get(), buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, static_cast<size_t>(n));
    if (!sent && said.find(sign) != std::string::npos) {
      kill(pid, signal);
      sent = true;
    }
  }
  std::ofstream(out_file) << said;
  int status = 0;
  waitpid(pid, &status, 0);
  if (!sent) return -1;  // ended by itself
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class NerfEngineTest : public ::testing::Test {
 protected:
  NerfEngineTest() { WriteBallDataset(dataset_); }

  Outcome Run(const std::string& arguments, const std::string& bin_dir = BinDir()) {
    const std::string out = dir_ / "out.txt", err = dir_ / "err.txt";
    const std::string command = bin_dir + "/nerf-engine " + arguments + " >" + out + " 2>" + err;
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.out = ReadFile(out, 1 << 24).value_or("");
    outcome.err = ReadFile(err, 1 << 24).value_or("");
    return outcome;
  }

  // A training that takes a second or less.
  std::string Train(const std::string& out, int steps, int threads = 1) {
    return "train " + dataset_ + " --out " + (dir_ / out) + " --steps " + std::to_string(steps) +
           " --threads " + std::to_string(threads) +
           " --set log2_hashmap_size=12 --set grid_resolution=32" +
           " --set target_samples=512 --set initial_rays=64 --set warmup_steps=10 --set step=0.05";
  }

  std::string Bytes(const std::string& path) {
    const auto bytes = ReadFile(dir_ / path, 1 << 30);
    EXPECT_THAT(bytes, IsOk());
    return bytes.value_or("");
  }

  TempDir dir_;
  const std::string dataset_ = dir_ / "ball";
};

TEST_F(NerfEngineTest, TrainingThatIsNotToBeEvaluatedEndsWithoutAPsnr) {
  const Outcome trained = Run(Train("o", 4) + " --no-eval --json");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json done = trained.Last();
  EXPECT_EQ(done["event"], "done");
  EXPECT_EQ(done["step"], 4);
  EXPECT_FALSE(done.contains("psnr"));
  EXPECT_EQ(trained.out.find("evaluating"), std::string::npos);
  const Outcome in_words = Run(Train("o", 4) + " --no-eval");
  ASSERT_EQ(in_words.code, 0) << in_words.err;
  EXPECT_EQ(in_words.out.rfind("trained 4 steps, ", 0), 0u);
  EXPECT_EQ(in_words.out.find("PSNR"), std::string::npos);
}

TEST_F(NerfEngineTest, StartTakesItsScopeAndTheModelSaysSo) {
  ASSERT_EQ(Run(Train("first", 20)).code, 0);
  const std::string start = " --init " + (dir_ / "first/model.safetensors");
  std::map<std::string, std::string> bytes;
  for (const char* scope : {"all", "field", "mlp", "occupancy"}) {
    const Outcome trained = Run(Train(scope, 4) + start + " --init-scope " + scope);
    ASSERT_EQ(trained.code, 0) << trained.err;
    const std::string model = std::string(scope) + "/model.safetensors";
    const Json inspected = Run("inspect --json " + (dir_ / model)).Last();
    const std::string made_from = inspected["metadata"]["made_from"];
    EXPECT_EQ(made_from.rfind(std::string(scope) + " of ngp, step 20, ", 0), 0u) << made_from;
    EXPECT_NE(Run("inspect " + (dir_ / model)).out.find("started from " + made_from),
              std::string::npos);
    bytes[Bytes(model)] = scope;
  }
  ASSERT_EQ(Run(Train("scratch", 4)).code, 0);
  bytes[Bytes("scratch/model.safetensors")] = "none";
  EXPECT_EQ(bytes.size(), 5u) << "each scope trains another model";
  const Outcome found = Run(Train("found", 4) + " --init auto");
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_NE(found.err.find("starting from "), std::string::npos) << found.err;
  EXPECT_NE(found.err.find("trained on the same capture"), std::string::npos) << found.err;
  EXPECT_EQ(Run(Train("none", 4) + " --init auto --init-from " + dataset_).code, 5);
  // Tables grow and shrink.
  const std::string larger = " --set log2_hashmap_size=13";
  for (const char* scope : {"all", "field", "mlp"}) {
    EXPECT_EQ(Run(Train("larger", 4) + larger + start + " --init-scope " + scope).code, 0);
    const Outcome smaller = Run(Train("smaller", 4) + " --init " +
                                (dir_ / "larger/model.safetensors") + " --init-scope " + scope);
    EXPECT_EQ(smaller.code, 0) << scope << smaller.err;
  }
}

TEST_F(NerfEngineTest, TraceHasThePhasesOfTheStepsAndChangesNoByte) {
  ASSERT_EQ(Run(Train("plain", 20)).code, 0);
  const Outcome traced = Run(Train("traced", 20) + " --trace " + (dir_ / "trace.json"));
  ASSERT_EQ(traced.code, 0) << traced.err;
  EXPECT_EQ(Bytes("traced/checkpoint.safetensors"), Bytes("plain/checkpoint.safetensors"));
  std::map<std::string, int> counts;
  const Json trace = Json::parse(Bytes("trace.json"));
  for (const Json& event : trace["traceEvents"]) {
    ++counts[event["name"]];
    EXPECT_GE(event["ts"], 0.0);
    EXPECT_GE(event["dur"], 0.0);
  }
  for (const char* each : {"step", "draw pixels", "make rays", "march", "chunks", "parameters"})
    EXPECT_EQ(counts[each], 20) << each;
  EXPECT_EQ(counts["occupancy grid"], 1) << "every 16 steps";
}

TEST_F(NerfEngineTest, TorchTraceHasTheOperationsOfTheFirstSteps) {
  if (!std::filesystem::exists(AutogradLibraryPath())) GTEST_SKIP() << "built without LibTorch";
  std::string train = Train("o", 22) + " --method mlp-autograd";
  train.replace(train.find("--set log2_hashmap_size=12"), 26, "--set width=32 --set depth=2");
  const Outcome traced = Run(train + " --torch-trace " + (dir_ / "ops.json"));
  ASSERT_EQ(traced.code, 0) << traced.err;
  std::map<std::string, int> counts;
  const Json trace = Json::parse(Bytes("ops.json"));
  for (const Json& event : trace["traceEvents"]) ++counts[event["name"]];
  EXPECT_EQ(counts["march"], 20);
  EXPECT_GT(counts["aten::addmm"], 0);
  EXPECT_EQ(counts["AddmmBackward0"], 20 * 6);
}

TEST_F(NerfEngineTest, TracesThatCannotBeWrittenAreRefusedBeforeTheTraining) {
  const Outcome without = Run(Train("o", 4) + " --torch-trace " + (dir_ / "ops.json"));
  EXPECT_EQ(without.code, 2);
  EXPECT_NE(without.err.find("--torch-trace: method ngp does not run through LibTorch"),
            std::string::npos)
      << without.err;
  for (const char* flag : {"--trace", "--torch-trace"}) {
    for (const std::string& path :
         {std::string(dir_ / ""), dir_ / "missing/t.json", dir_ / std::string(300, 'x'),
          std::string("/proc/t.json"), std::string("/dev/null/t.json"), std::string("''")}) {
      const Outcome refused = Run(Train("o", 4) + " --method ngp-autograd " + flag + " " + path);
      EXPECT_EQ(refused.code, 2) << flag << " " << path;
      EXPECT_NE(refused.err.find(flag), std::string::npos) << refused.err;
    }
  }
  const std::string same = dir_ / "t.json";
  const Outcome twice = Run(Train("o", 4) + " --method ngp-autograd --trace " + same +
                            " --torch-trace " + (dir_ / "./t.json"));
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("the file of --trace"), std::string::npos) << twice.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o"));
}

TEST_F(NerfEngineTest, TorchTraceOfACheckpointIsThatOfItsMethod) {
  ASSERT_EQ(Run(Train("o", 20) + " --stop-after 4").code, 0);
  const Outcome resumed =
      Run("train " + dataset_ + " --out " + (dir_ / "o") + " --resume " +
          (dir_ / "o/checkpoint.safetensors") + " --torch-trace " + (dir_ / "ops.json"));
  EXPECT_EQ(resumed.code, 9) << resumed.err;
  EXPECT_NE(resumed.err.find("method ngp does not run through LibTorch"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "ops.json"));
}

// The lines of `event` among those of --json.
std::vector<Json> LinesOf(const std::string& out, const std::string& event) {
  std::vector<Json> lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);)
    if (Json object = Json::parse(line); object["event"] == event)
      lines.push_back(std::move(object));
  return lines;
}

TEST_F(NerfEngineTest, AblationTrainsTheBaselineAndEachValue) {
  std::string train = Train("o", 20);  // the average that is evaluated changes at step 16
  train.replace(0, std::string("train").size(), "ablate");
  const Outcome ablated = Run(train + " --vary learning_rate=0.01,nonsense --seeds 2 --json");
  EXPECT_EQ(ablated.code, 3) << "one variant fails";
  const std::vector<Json> lines = LinesOf(ablated.out, "ablation");
  ASSERT_EQ(lines.size(), 3u) << ablated.out;
  EXPECT_EQ(lines[0]["name"], "baseline");
  EXPECT_EQ(lines[0]["psnr_of_seeds"].size(), 2u);
  EXPECT_GT(lines[0]["psnr"], 3.0);
  EXPECT_GT(lines[0]["ssim"], 0.0);
  EXPECT_GT(lines[0]["peak_rss_bytes"], 1e6);
  EXPECT_GT(lines[0]["cpu_seconds"], 0.0);
  EXPECT_EQ(lines[1]["name"], "learning_rate=0.01");
  EXPECT_NE(lines[1]["psnr"], lines[0]["psnr"]);
  EXPECT_NE(lines[2]["failure"].get<std::string>().find("learning_rate"), std::string::npos);
  EXPECT_EQ(LinesOf(ablated.out, "failed").size(), 1u);
  const std::vector<Json> progress = LinesOf(ablated.out, "progress");
  ASSERT_FALSE(progress.empty()) << "nothing is said while it works";
  EXPECT_EQ(progress.front()["training"], 1);
  EXPECT_EQ(progress.back()["training"], 4);
  EXPECT_EQ(progress.back()["name"], "learning_rate=0.01, seed 2");

  for (const char* folder : {"baseline/seed1", "baseline/seed2", "learning_rate=0.01/seed2"}) {
    for (const char* file : {"model.safetensors", "metrics.jsonl", "eval.json"})
      EXPECT_TRUE(std::filesystem::exists(dir_ / "o/" + folder + "/" + file)) << folder << file;
  }
  const std::string csv = Bytes("o/table.csv");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 4 + 1) << csv;
  EXPECT_NE(csv.find("baseline/seed2"), std::string::npos) << csv;
  EXPECT_TRUE(std::filesystem::exists(dir_ / "o/sheet.png"));
}

TEST_F(NerfEngineTest, AblationOfOneSeedSaysWhichTrainingRunsAndAsksForMoreSeeds) {
  std::string train = Train("o", 20);
  train.replace(0, std::string("train").size(), "ablate");
  const Outcome ablated = Run(train + " --vary learning_rate=0.01");
  ASSERT_EQ(ablated.code, 0) << ablated.err;
  EXPECT_NE(ablated.err.find("[1 of 2] baseline, seed 1: step "), std::string::npos) << ablated.err;
  EXPECT_NE(ablated.err.find("[2 of 2] learning_rate=0.01, seed 1: "), std::string::npos);
  EXPECT_NE(ablated.err.find("--seeds 3"), std::string::npos) << ablated.err;
  EXPECT_TRUE(std::filesystem::exists(dir_ / "o/baseline/model.safetensors"));
}

TEST_F(NerfEngineTest, AblationMeasuresTheSecondsToAPsnr) {
  std::string train = Train("o", 0);
  const std::string steps = " --steps 0";
  ASSERT_NE(train.find(steps), std::string::npos) << train;
  train.replace(train.find(steps), steps.size(), " --samples 10k");
  train.replace(0, std::string("train").size(), "ablate");
  const Outcome low = Run(train + " --vary near=0.01 --target-psnr 1 --json");
  ASSERT_EQ(low.code, 0) << low.err << low.out;
  const Json first = LinesOf(low.out, "ablation").at(0);
  EXPECT_GT(first["seconds_to_psnr"], 0.0);
  EXPECT_LT(first["seconds_to_psnr"], first["seconds"]) << "a sixteenth of the samples is enough";
  const Outcome high = Run(train + " --vary near=0.01 --target-psnr 99");
  ASSERT_EQ(high.code, 0) << high.err << high.out;
  EXPECT_NE(high.out.find("S TO 99 DB"), std::string::npos) << high.out;
  EXPECT_EQ(high.out.substr(high.out.size() - 3), " -\n") << "never reached";
}

TEST_F(NerfEngineTest, AblationWithoutABaselineEndsAtOnce) {
  EXPECT_EQ(Run("ablate " + (dir_ / "none") + " --out " + (dir_ / "o") + " --vary near=1").code, 3);
  EXPECT_EQ(Run("ablate " + dataset_ + " --out " + (dir_ / "o") + " --vary near").code, 2);
  EXPECT_EQ(Run("ablate " + dataset_ + " --out " + (dir_ / "o")).code, 2);
  const std::string near = "ablate " + dataset_ + " --out " + (dir_ / "o") + " --vary near=1";
  EXPECT_EQ(Run(near + " --target-psnr 20").code, 2) << "needs --samples";
  for (const char* flags : {" --samples 1k --target-psnr nan", " --samples 1k --target-psnr -1",
                            " --samples none", " --samples 0"}) {
    EXPECT_EQ(Run(near + flags).code, 2) << flags;
  }
}

TEST_F(NerfEngineTest, MetaLearnsAStartOverAFolderOfScenes) {
  const std::string scenes = dir_ / "scenes";
  WriteBallDataset(scenes + "/a");
  WriteBallDataset(scenes + "/b", 4, 0);
  std::filesystem::create_directories(scenes + "/no_scene");
  const std::string settings =
      " --threads 1 --set log2_hashmap_size=12 --set grid_resolution=32 --set target_samples=512"
      " --set initial_rays=64 --set step=0.05";
  const auto meta = [&](const std::string& out, const std::string& flags) {
    return Run("meta " + scenes + " --out " + (dir_ / out) + " --inner-steps 5 " + flags +
               settings);
  };
  dir_.Write("m/run/log", "of the user");
  const Outcome learned = meta("m", "--outer-steps 3 --json");
  ASSERT_EQ(learned.code, 0) << learned.err << learned.out;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "m/.inner_training"));
  EXPECT_EQ(Bytes("m/run/log"), "of the user");
  EXPECT_EQ(learned.Last()["event"], "done");
  const std::string model = dir_ / "m/model.safetensors";
  EXPECT_EQ(learned.Last()["model"], model);
  const std::string made_from = Run("inspect --json " + model).Last()["metadata"]["made_from"];
  EXPECT_EQ(made_from,
            "reptile over 2 scenes (a, b), 3 outer steps of 5 inner steps, rate 0.5, seed 1");
  ASSERT_EQ(meta("again", "--outer-steps 3").code, 0);
  EXPECT_EQ(Bytes("again/model.safetensors"), Bytes("m/model.safetensors"));
  ASSERT_EQ(meta("other", "--outer-steps 3 --seed 2").code, 0);
  EXPECT_NE(Bytes("other/model.safetensors"), Bytes("m/model.safetensors"));
  const Outcome started = Run(Train("started", 4) + " --init " + model);
  EXPECT_EQ(started.code, 0) << started.err;
  EXPECT_EQ(Run("render " + model + " --orbit 1 --width 16 --out " + (dir_ / "v")).code, 0);

  EXPECT_EQ(Run("meta " + (dir_ / "none") + " --out " + (dir_ / "o")).code, 5);
  EXPECT_EQ(Run("meta " + scenes + "/no_scene --out " + (dir_ / "o")).code, 9);
  EXPECT_EQ(meta("o", "--outer-steps 1 --set nonsense=1").code, 3) << "what the training said";
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o")) << "a command that failed leaves nothing";
  EXPECT_EQ(meta("o", "--outer-steps 0").code, 2);
  EXPECT_EQ(meta("o", "--rate 2").code, 2);
}

TEST_F(NerfEngineTest, HelpOfSettingsIsThatOfTheClientAndNeedsNoFolder) {
  const Outcome engine = Run("train --help-settings");
  ASSERT_EQ(engine.code, 0) << engine.err;
  EXPECT_EQ(engine.out, SettingsTable(MethodDescriptionOf(TrainConfig())));
  EXPECT_NE(Run("train --help").out.find("--help-settings"), std::string::npos);
}

TEST_F(NerfEngineTest, HelpOfTrainShowsWhatIsTakenWhereNothingIsSaid) {
  const std::string help = Run("train --help").out;
  for (const char* shown : {"--method TEXT=ngp ", "--background TEXT=auto ", "--test-every INT=8 ",
                            "--init-scope TEXT=all "}) {
    std::string words = help;
    words.erase(std::unique(words.begin(), words.end(),
                            [](char a, char b) { return a == ' ' && b == ' '; }),
                words.end());
    EXPECT_NE(words.find(shown), std::string::npos) << shown << "\n" << help;
  }
}

// The lines of a metrics.jsonl.
std::vector<Json> LinesOf(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST_F(NerfEngineTest, TrainingKeepsItsCurveAndItsScores) {
  ASSERT_EQ(Run(Train("o", 40) + " --images " + (dir_ / "views")).code, 0);
  const std::vector<Json> lines = LinesOf(Bytes("o/metrics.jsonl"));
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines[0]["event"], "progress");
  EXPECT_TRUE(lines[0]["loss"].is_number());
  EXPECT_GT(lines[0]["time"], 1.7e9);
  EXPECT_EQ(lines.back()["event"], "done");
  EXPECT_EQ(lines.back()["step"], 40);
  EXPECT_TRUE(lines.back()["ssim"].is_number());
  const Json scores = Json::parse(Bytes("o/eval.json"));
  EXPECT_EQ(scores["psnr"], lines.back()["psnr"]);
  EXPECT_EQ(scores["ssim"], lines.back()["ssim"]);
  EXPECT_EQ(scores["per_image"].size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "views/photographs/test_r_0.png"));
  ASSERT_EQ(Run("eval " + (dir_ / "o/model.safetensors") + " " + dataset_ + " --out " +
                (dir_ / "scores/of"))
                .code,
            0);
  const Json evaluated = Json::parse(Bytes("scores/of/eval.json"));
  for (const char* key : {"psnr", "ssim", "psnr_color_aligned", "per_image", "background"})
    EXPECT_EQ(evaluated[key], scores[key]) << key;
  EXPECT_EQ(evaluated["split"], "test");
}

TEST_F(NerfEngineTest, CurveOfATrainingThatGoesOnHasEachStepOnce) {
  ASSERT_EQ(Run(Train("o", 40) + " --stop-after 10 --tensorboard").code, 0);
  // What came after the checkpoint, of a training that was killed.
  std::ofstream(dir_ / "o/metrics.jsonl", std::ios::app)
      << R"({"event":"progress","step":20,"loss":9})"
      << "\n{\"event\":\"progr";
  const std::string go_on =
      "train " + dataset_ + " --threads 1 --resume " + (dir_ / "o/checkpoint.safetensors");
  ASSERT_EQ(Run(go_on + " --tensorboard").code, 0);
  std::vector<int> steps;
  for (const Json& line : LinesOf(Bytes("o/metrics.jsonl"))) {
    if (line["event"] == "progress") steps.push_back(line["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int>{10, 40}));
  const std::string curve = "o/events.out.tfevents.nerf-engine";
  const std::string events = Bytes(curve);
  size_t n_losses = 0;
  for (size_t at = 0; (at = events.find("progress/loss", at)) != std::string::npos; ++at)
    ++n_losses;
  EXPECT_EQ(n_losses, 2u);
  EXPECT_NE(events.find("done/psnr"), std::string::npos);
  ASSERT_EQ(Run(Train("o", 4)).code, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_ / curve)) << "of the training that is overwritten";
  EXPECT_EQ(LinesOf(Bytes("o/metrics.jsonl")).back()["step"], 4);
}

TEST_F(NerfEngineTest, TrainEvalRenderInspectAgree) {
  const Outcome trained = Run(Train("o", 40) + " --json");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json done = trained.Last();
  EXPECT_EQ(done["event"], "done");
  EXPECT_EQ(done["step"], 40);
  for (const char* key :
       {"samples", "marched", "rays", "seconds", "samples_per_second", "peak_rss_bytes", "psnr"}) {
    EXPECT_TRUE(done[key].is_number()) << key;
  }
  EXPECT_NE(trained.out.find(R"({"event":"progress","step":)"), std::string::npos);
  EXPECT_NE(trained.out.find(R"({"event":"evaluating","view":0,"views":2,"seconds_left":)"),
            std::string::npos);

  const Outcome evaluated = Run("eval " + (dir_ / "o/model.safetensors") + " " + dataset_ +
                                " --json --images " + (dir_ / "images"));
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const Json score = evaluated.Last();
  EXPECT_EQ(score["psnr"], done["psnr"]) << "the same digits";
  EXPECT_EQ(evaluated.out.rfind(R"({"event":"evaluating","view":0,"views":2,"seconds_left":)", 0),
            0u);
  EXPECT_EQ(score["images"], 2);
  EXPECT_EQ(score["per_image"].size(), 2u);
  EXPECT_TRUE(score["ssim"].is_number());
  EXPECT_FALSE(score.contains("lpips"));
  EXPECT_GE(score["psnr_color_aligned"], score["psnr"]);
  EXPECT_TRUE(score["specks"]["pixels"].is_number());
  EXPECT_LE(score["per_image"][0]["psnr"], score["per_image"][1]["psnr"]) << "the worst first";
  for (const char* name : {"test_r_0.png", "test_r_1.png"}) {
    const auto view = DecodeImage(dir_ / "images/" + name);
    const auto photograph = DecodeImage(dir_ / "images/photographs/" + name);
    ASSERT_THAT(view, IsOk());
    ASSERT_THAT(photograph, IsOk());
    EXPECT_EQ(photograph->n_channels, 3) << "on the background";
    EXPECT_EQ(photograph->width, view->width);
  }

  const Outcome rendered =
      Run("render " + (dir_ / "o/model.safetensors") + " --orbit 2 --width 20 --out " +
          (dir_ / "r") + " --channels rgb,depth,opacity --json");
  ASSERT_EQ(rendered.code, 0) << rendered.err;
  for (const char* name : {"rgb_0000.png", "rgb_0001.png", "depth_0001.png", "opacity_0000.png"}) {
    const auto image = DecodeImage(dir_ / ("r/" + std::string(name)));
    ASSERT_THAT(image, IsOk()) << name;
    EXPECT_EQ(image->width, 20);
  }
  EXPECT_TRUE(Json::parse(Bytes("r/depth.json"))["far"].is_number());

  const Outcome inspected = Run("inspect " + (dir_ / "o/checkpoint.safetensors") + " --json");
  ASSERT_EQ(inspected.code, 0);
  EXPECT_EQ(inspected.Last()["kind"], "checkpoint");
  EXPECT_EQ(inspected.Last()["step"], 40);
  EXPECT_NE(Run("inspect " + (dir_ / "o/model.safetensors")).out.find("field.hash_table"),
            std::string::npos);

  // A reader of 30 lines in Python, as other programs would have.
  const std::string script = "python3 " + SourceDir() + "/tests/testing/read_safetensors.py " +
                             (dir_ / "o/checkpoint.safetensors") + " > " + (dir_ / "python.txt");
  ASSERT_EQ(std::system(script.c_str()), 0);
  EXPECT_NE(Bytes("python.txt").find("kind checkpoint"), std::string::npos);
}

// Weights that are zero: pictures are alike.
TEST_F(NerfEngineTest, EvalAddsLpipsWhereWeightsAreGiven) {
  ASSERT_EQ(Run(Train("o", 4) + " --no-eval").code, 0);
  const struct {
    uint32_t number, n_in, n_out, side;
  } layers[] = {
      {0, 3, 64, 11}, {3, 64, 192, 5}, {6, 192, 384, 3}, {8, 384, 256, 3}, {10, 256, 256, 3}};
  const std::string larger = dir_ / "larger";
  WriteBallDataset(larger, 6, 2, 32);
  TensorFile trunk, heads;
  const std::vector<float> zeros(1 << 20);
  int i = 0;
  for (const auto& [number, n_in, n_out, side] : layers) {
    const std::string name = fmt::format("features.{}.", number);
    trunk.tensors[name + "weight"] =
        TensorFromFloats(zeros.data(), {n_out, n_in, side, side}, DType::kF32);
    trunk.tensors[name + "bias"] = TensorFromFloats(zeros.data(), {n_out}, DType::kF32);
    heads.tensors[fmt::format("lin{}.model.1.weight", i++)] =
        TensorFromFloats(zeros.data(), {1, n_out, 1, 1}, DType::kF32);
  }
  const std::string trunk_file = dir_ / "trunk.safetensors", heads_file = dir_ / "h.safetensors";
  ASSERT_THAT(WriteTensorFile(trunk, trunk_file), IsOk());
  ASSERT_THAT(WriteTensorFile(heads, heads_file), IsOk());
  const std::string weights = " --lpips " + trunk_file + " --lpips " + heads_file;
  const std::string eval = "eval" + weights + " " + (dir_ / "o/model.safetensors") + " " + larger;
  const Outcome evaluated = Run(eval + " --json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_EQ(evaluated.Last()["lpips"], 0);
  EXPECT_EQ(evaluated.Last()["per_image"][1]["lpips"], 0);
  EXPECT_NE(Run(eval).out.find("LPIPS 0.0000\n"), std::string::npos);
  const Outcome ablated = Run("ablate " + larger + " --out " + (dir_ / "a") + weights +
                              " --steps 2 --vary log2_hashmap_size=12");
  ASSERT_EQ(ablated.code, 0) << ablated.err;
  EXPECT_NE(ablated.out.find("LPIPS\n"), std::string::npos) << ablated.out;
  EXPECT_NE(ablated.out.find(" 0.0000\n"), std::string::npos) << ablated.out;
}

TEST_F(NerfEngineTest, RenderWithoutACameraTakesAPathNearTheTrainingViews) {
  ASSERT_EQ(Run(Train("o", 40)).code, 0);
  const std::string model = dir_ / "o/model.safetensors";
  const Outcome rendered = Run("render " + model + " --width 20 --out " + (dir_ / "r") + " --json");
  ASSERT_EQ(rendered.code, 0) << rendered.err;
  EXPECT_EQ(rendered.Last()["path"], "orbit") << "the cameras go around";
  EXPECT_EQ(rendered.Last()["images"], 8);
  EXPECT_EQ(rendered.Last()["seen_twice"].size(), 8u);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "r/sheet.png"));
  const Outcome one =
      Run("render " + model + " --orbit 1 --sheet --width 20 --out " + (dir_ / "one"));
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(std::filesystem::exists(dir_ / "one/sheet.png"));
  EXPECT_EQ(Run("render " + model + " --sheet --channels depth --out " + (dir_ / "one")).code, 2);
  const Outcome along = Run("render " + model + " --path cameras --frames 3 --width 20 --out " +
                            (dir_ / "along") + " --channels rgb,depth --json");
  ASSERT_EQ(along.code, 0) << along.err;
  EXPECT_EQ(along.Last()["path"], "cameras");
  EXPECT_TRUE(std::filesystem::exists(dir_ / "along/depth_color_0002.png"));
  EXPECT_EQ(Run("render " + model).code, 2) << "neither --out nor --video";
  EXPECT_EQ(Run("render " + model + " --path circle --out " + (dir_ / "c")).code, 2);
  EXPECT_EQ(Run("render " + model + " --video v.gif --out " + (dir_ / "c")).code, 2);
}

TEST_F(NerfEngineTest, ViewsHaveAlphaABoxAndAllDirections) {
  ASSERT_EQ(Run(Train("o", 40)).code, 0);
  const std::string render = "render " + (dir_ / "o/model.safetensors") + " --orbit 2 --out ";
  const Outcome cut = Run(render + (dir_ / "cut") +
                          " --width 20 --channels rgba --crop 0,0,0,0.5,0.5,0.5,0,0,0.6,0.8");
  ASSERT_EQ(cut.code, 0) << cut.err;
  const auto picture = DecodeImage(dir_ / "cut/rgba_0000.png");
  ASSERT_THAT(picture, IsOk());
  EXPECT_EQ(picture->n_channels, 4);
  EXPECT_EQ(picture->Pixel(0, 0)[3], 0) << "beside the box";
  EXPECT_TRUE(std::filesystem::exists(dir_ / "cut/sheet.png"));
  const Outcome around =
      Run(render + (dir_ / "around") +
          " --width 64 --panorama --stereo top-bottom --eye-distance 0.1 --json");
  ASSERT_EQ(around.code, 0) << around.err;
  EXPECT_EQ(around.Last()["height"], 64);
  EXPECT_FALSE(around.Last().contains("seen_twice"));
  const auto bytes = ReadFile(dir_ / "around/rgb_0001_TB.png", 1 << 20);
  ASSERT_THAT(bytes, IsOk());
  EXPECT_NE(bytes->find("GPano:ProjectionType=\"equirectangular\""), std::string::npos);
  for (const char* wrong :
       {"--crop 0,0,0,0,1,1", "--crop nan,0,0,1,1,1", "--crop 0,0,0,1,1,1,0,0,0,2",
        "--background red", "--channels rgb,rgba", "--stereo top-bottom --eye-distance 1",
        "--panorama --width 30 --height 20", "--panorama --stereo left-right",
        "--channels rgba --video v.mp4", "--panorama --video v.mkv"}) {
    const Outcome refused = Run(render + (dir_ / "wrong") + " " + wrong);
    EXPECT_EQ(refused.code, 2) << wrong;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "wrong"));
}

TEST_F(NerfEngineTest, LongRenderSaysHowLongItTakesAndWhy) {
  ASSERT_EQ(Run(Train("o", 2)).code, 0);
  const std::string render =
      "render " + (dir_ / "o/model.safetensors") + " --path orbit --out " + (dir_ / "r");
  const Outcome in_json = Run(render + " --frames 6 --width 200 --json");
  ASSERT_EQ(in_json.code, 0) << in_json.err;
  EXPECT_EQ(in_json.out.rfind(R"({"event":"rendering","view":0,"views":6,"seconds_left":)", 0), 0u)
      << in_json.out;
  const Outcome small = Run(render + " --frames 2 --width 8");
  EXPECT_EQ(small.err.find("rendering: "), std::string::npos) << "it is over at once";
  // Barely trained, so that most of its space is occupied: minutes, of which the first is enough.
  const std::string engine = BinDir() + "/nerf-engine ";
  EXPECT_EQ(ExitCodeAfterSignal(engine + render + " --frames 1000 --width 400 --threads 1",
                                dir_ / "said", "rendering: 0 of 1000 views, about ", SIGINT),
            130);
  const std::string said = Bytes("said");
  EXPECT_NE(said.find("views are slow because the model is barely trained"), std::string::npos)
      << said;
}

TEST_F(NerfEngineTest, InterruptedVideoNamesTheFolderOfItsFrames) {
  if (!FindProgram("ffmpeg").ok()) GTEST_SKIP() << "no ffmpeg";
  ASSERT_EQ(Run(Train("o", 2)).code, 0);
  const std::string film = dir_ / "film.mp4";
  const int code =
      ExitCodeAfterSignal(BinDir() + "/nerf-engine render " + (dir_ / "o/model.safetensors") +
                              " --path orbit --frames 5000 --width 64 --json --video " + film,
                          dir_ / "said", R"("view":1)", SIGINT);
  EXPECT_EQ(code, 130);
  const std::string said = Bytes("said");
  EXPECT_THAT(said, ::testing::ContainsRegex("interrupted: [0-9]+ of 5000 views are done; their "
                                             "pictures are in .*film.mp4.frames"));
  EXPECT_TRUE(std::filesystem::exists(film + ".frames/rgb_0000.png"));
}

TEST_F(NerfEngineTest, FinishedVideoTakesItsFramesAwayAndNothingElse) {
  if (!FindProgram("ffmpeg").ok()) GTEST_SKIP() << "no ffmpeg";
  ASSERT_EQ(Run(Train("o", 2)).code, 0);
  const std::string film = dir_ / "film.mp4";
  const std::string render = "render " + (dir_ / "o/model.safetensors") +
                             " --frames 2 --width 16 --channels rgb,depth --video " + film;
  ASSERT_EQ(Run(render).code, 0);
  EXPECT_TRUE(std::filesystem::exists(film));
  EXPECT_FALSE(std::filesystem::exists(film + ".frames"));
  dir_.Write("film.mp4.frames/notes.txt", "mine");
  ASSERT_EQ(Run(render).code, 0);
  EXPECT_EQ(Bytes("film.mp4.frames/notes.txt"), "mine");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(film + ".frames"), {}), 1);
}

TEST_F(NerfEngineTest, CamerasFarFromTheTrainingViewsAreWarnedOf) {
  ASSERT_EQ(Run(Train("o", 2)).code, 0);
  dir_.Write("cameras.json", R"({"w": 8, "h": 6, "fl_x": 10, "frames": [
      {"transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]},
      {"transform_matrix": [[1,0,0,900],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}]})");
  const Outcome rendered = Run("render " + (dir_ / "o/model.safetensors") + " --camera " +
                               (dir_ / "cameras.json") + " --out " + (dir_ / "r"));
  ASSERT_EQ(rendered.code, 0) << rendered.err;
  EXPECT_THAT(rendered.err,
              ::testing::HasSubstr("warning: 1 of 2 views far from all training views, as "
                                   "cameras of another data set would be: 0001\n"));
}

TEST_F(NerfEngineTest, DownscaleDividesTheSidesOfThePictures) {
  const Outcome trained = Run(Train("o", 2) + " --downscale 3");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, ::testing::HasSubstr("24x24")) << "as they are";
  EXPECT_THAT(trained.err, ::testing::HasSubstr("8x8"));
  const Outcome inspected = Run("inspect --json " + (dir_ / "o/model.safetensors"));
  EXPECT_EQ(inspected.Last()["metadata"]["setting.max_side"], "8") << "the model remembers";
  EXPECT_EQ(Run(Train("o", 2) + " --downscale 3 --max-side 8").code, 2);
  EXPECT_EQ(Run(Train("o", 2) + " --downscale 0").code, 2);
  EXPECT_EQ(Run("train " + (dir_ / "none") + " --downscale 2 --out " + (dir_ / "p")).code, 5);
}

// tests/testing/fake_colmap.py finds the poses.
TEST_F(NerfEngineTest, SuggestedCommandsLeadFromPhotographsToViews) {
  const std::string photos = dir_ / "my photos";
  for (uint32_t seed = 1; seed < 6; ++seed) {
    std::filesystem::create_directories(photos);
    ASSERT_THAT(WritePng(fmt::format("{}/{}.png", photos, seed), TexturedImage(64, 48, seed)),
                IsOk());
  }
  const auto suggested = [](const Outcome& outcome) {
    const std::string start = "next: nerf-engine ";
    const size_t begin = outcome.err.find(start);
    EXPECT_NE(begin, std::string::npos) << outcome.err;
    const std::string line = outcome.err.substr(begin + start.size());
    return line.substr(0, std::min(line.find("   ("), line.find('\n')));
  };
  const Outcome refused = Run("train '" + photos + "' --out " + (dir_ / "o"));
  ASSERT_EQ(refused.code, 9);
  const std::string pose =
      suggested(refused) + " --colmap " + SourceDir() + "/tests/testing/fake_colmap.py";
  const Outcome checked = Run(pose + " --validate-only");
  EXPECT_EQ(checked.code, 0);
  EXPECT_THAT(checked.err, ::testing::HasSubstr("the search for poses can begin"));
  EXPECT_EQ(Run(pose + " --validate-only --json").out, "{\"event\":\"done\"}\n");
  const Outcome posed = Run(pose);
  ASSERT_EQ(posed.code, 0) << posed.err;
  const Outcome trained =
      Run(suggested(posed) + " --steps 2 --threads 1 --set log2_hashmap_size=12");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome rendered = Run(suggested(trained) + " --frames 1 --width 8");
  ASSERT_EQ(rendered.code, 0) << rendered.err;
  EXPECT_TRUE(std::filesystem::exists(photos + "-posed-model/views/rgb_0000.png"));
  // Once they were found, the photographs lead to them.
  const Outcome again = Run("train '" + photos + "' --out " + (dir_ / "o"));
  EXPECT_EQ(Run(suggested(again) + " --steps 2 --threads 1 --set log2_hashmap_size=12").code, 0);
}

TEST_F(NerfEngineTest, PoseSaysWhichToolsItWouldRun) {
  const std::string tools = "pose --tools --json --ffmpeg /no/ffmpeg --colmap ";
  const Outcome found = Run(tools + SourceDir() + "/tests/testing/fake_colmap.py");
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(found.out, "{\"event\":\"done\",\"colmap\":\"3.8\"}\n");
  EXPECT_EQ(Run(tools + "/no/colmap").code, 2);
  EXPECT_EQ(Run(tools + "/bin/true").code, 7);
}

TEST_F(NerfEngineTest, PoseRefusesNamesThatAreEmpty) {
  for (const char* flags : {"'' --out x", "photos --out ''"}) {
    const Outcome refused = Run(std::string("pose ") + flags);
    EXPECT_EQ(refused.code, 2) << flags << refused.err;
  }
}

TEST_F(NerfEngineTest, ProgressiveRenderEndsInTheSameBytes) {
  ASSERT_EQ(Run(Train("o", 5)).code, 0);
  const std::string render =
      "render " + (dir_ / "o/model.safetensors") + " --orbit 2 --width 40 --out ";
  ASSERT_EQ(Run(render + (dir_ / "whole")).code, 0);
  const Outcome passes = Run(render + (dir_ / "passes") + " --progressive --json");
  ASSERT_EQ(passes.code, 0) << passes.err;
  std::vector<std::pair<int, int>> seen;
  std::istringstream lines(passes.out);
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    if (event["event"] != "pass") continue;
    seen.emplace_back(event["view"], event["stride"]);
    EXPECT_TRUE(event["seconds"].is_number());
    EXPECT_EQ(event["file"], dir_ / fmt::format("passes/rgb_{:04}.png", event["view"].get<int>()));
  }
  EXPECT_EQ(seen,
            (std::vector<std::pair<int, int>>{{0, 8}, {0, 4}, {0, 2}, {1, 8}, {1, 4}, {1, 2}}));
  for (const char* name : {"rgb_0000.png", "rgb_0001.png"}) {
    EXPECT_TRUE(Bytes(std::string("passes/") + name) == Bytes(std::string("whole/") + name))
        << name;
  }
  EXPECT_EQ(Run(render + (dir_ / "depth") + " --progressive --channels depth").code, 2);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "depth"));
}

TEST_F(NerfEngineTest, DatasetsOwnListOfViewsIsACameraFileOnceItsSizeIsGiven) {
  ASSERT_EQ(Run(Train("o", 5)).code, 0);
  const std::string render = "render " + (dir_ / "o/model.safetensors") + " --camera " + dataset_ +
                             "/transforms_test.json --out " + (dir_ / "r");
  EXPECT_EQ(Run(render).code, 9) << "Blender's files do not state it";
  const Outcome half = Run(render + " --width 20");
  EXPECT_EQ(half.code, 9);
  EXPECT_THAT(half.err, ::testing::EndsWith(
                            "transforms_test.json: frames[0].w: is missing, and h too, as in 1 "
                            "more frame: --height is needed beside --width\n"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "r"));
  const Outcome rendered = Run(render + " --width 20 --height 16");
  ASSERT_EQ(rendered.code, 0) << rendered.err;
  const auto image = DecodeImage(dir_ / "r/rgb_0001.png");
  ASSERT_THAT(image, IsOk());
  EXPECT_EQ(image->width, 20);
  EXPECT_EQ(image->height, 16);
}

TEST_F(NerfEngineTest, TrainingOverAnEarlierOneSaysSoAndAResumedOneDoesNot) {
  const Outcome first = Run(Train("o", 4) + " --stop-after 2");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, ::testing::Not(::testing::HasSubstr("overwriting")));
  const std::string resume = " --resume " + (dir_ / "o/checkpoint.safetensors");
  const Outcome resumed = Run("train " + dataset_ + resume + " --out " + (dir_ / "o/"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, ::testing::Not(::testing::HasSubstr("overwriting")));
  for (const char* flag : {"", " --json"}) {
    const Outcome second = Run(Train("o", 3) + flag);
    ASSERT_EQ(second.code, 0) << second.err;
    EXPECT_THAT(
        second.err,
        ::testing::ContainsRegex(
            "warning: overwriting 2 files of an earlier training in .*/o \\(ngp, step [34], "
            "0.0 M samples, of 20[0-9-]+ [0-9:]+\\): checkpoint.safetensors, "
            "model.safetensors; another --out keeps them"));
  }
  // A checkpoint from elsewhere replaces what is there.
  ASSERT_EQ(Run(Train("elsewhere", 4) + " --stop-after 2").code, 0);
  const Outcome other = Run("train " + dataset_ + " --resume " +
                            (dir_ / "elsewhere/checkpoint.safetensors") + " --out " + (dir_ / "o"));
  EXPECT_THAT(other.err, ::testing::HasSubstr("warning: overwriting 2 files"));
  // What is no model is named all the same.
  dir_.Write("n/model.safetensors", "notes");
  const Outcome notes = Run(Train("n", 1));
  EXPECT_THAT(notes.err, ::testing::ContainsRegex("overwriting 1 file of an earlier training in "
                                                  ".*/n \\(of 20[0-9-]+ [0-9:]+\\): model"));
}

TEST_F(NerfEngineTest, RenderOverEarlierViewsSaysWhichAreReplacedAndWhichStay) {
  ASSERT_EQ(Run(Train("o", 4)).code, 0);
  const std::string render =
      "render " + (dir_ / "o/model.safetensors") + " --width 8 --out " + (dir_ / "v");
  const Outcome first = Run(render + " --orbit 3 --channels rgb,depth");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, ::testing::Not(::testing::HasSubstr("earlier render")));
  dir_.Write("v/notes.txt", "mine");
  const Outcome second = Run(render + " --orbit 2");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err,
              ::testing::HasSubstr("warning: overwriting 3 files of an earlier render in " +
                                   (dir_ / "v") + ": rgb_0000.png, rgb_0001.png, sheet.png\n"));
  EXPECT_THAT(second.err,
              ::testing::HasSubstr("warning: " + (dir_ / "v") +
                                   " also holds 8 files of an earlier render: depth.json, "));
  EXPECT_THAT(second.err, ::testing::HasSubstr("rgb_0002.png\n"));
}

TEST_F(NerfEngineTest, TextOutputEndsInThePsnrLine) {
  const Outcome trained = Run(Train("o", 10));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string line = trained.out.substr(trained.out.rfind("PSNR"));
  EXPECT_THAT(line, ::testing::MatchesRegex(
                        "PSNR [0-9]+\\.[0-9][0-9] dB \\(white background, 2 test views\\)\n"));
}

TEST_F(NerfEngineTest, StopAfterAndResumeGiveTheSameBytesAndSoDoThreads) {
  ASSERT_EQ(Run(Train("whole", 50)).code, 0);
  ASSERT_EQ(Run(Train("part", 50) + " --stop-after 20").code, 0);
  const Outcome resumed = Run("train " + dataset_ + " --out " + (dir_ / "resumed") + " --resume " +
                              (dir_ / "part/checkpoint.safetensors") + " --threads 3");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out,
              ::testing::ContainsRegex("trained 50 steps, [0-9.]+ M samples; from step "
                                       "20 on [0-9.]+ M in [0-9]+:[0-9][0-9] \\("));
  EXPECT_TRUE(Bytes("whole/checkpoint.safetensors") == Bytes("resumed/checkpoint.safetensors"));
  EXPECT_TRUE(Bytes("whole/model.safetensors") == Bytes("resumed/model.safetensors"));
  // Without a folder it goes on beside the checkpoint.
  EXPECT_EQ(Run("train " + dataset_ + " --resume " + (dir_ / "part/checkpoint.safetensors")).code,
            0);
  EXPECT_TRUE(Bytes("whole/model.safetensors") == Bytes("part/model.safetensors"));
  const Outcome nowhere = Run("train " + dataset_ + " --steps 5");
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.err, ::testing::HasSubstr("--out: name a folder"));
}

TEST_F(NerfEngineTest, ExtendedTrainingGivesTheSameBytesHoweverItIsStopped) {
  ASSERT_EQ(Run(Train("first", 30)).code, 0);
  const std::string extend = "train " + dataset_ + " --resume " +
                             (dir_ / "first/checkpoint.safetensors") + " --steps 60 --out ";
  const Outcome whole = Run(extend + (dir_ / "whole") + " --json");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(whole.Last()["step"], 60);
  const Outcome part = Run(extend + (dir_ / "part") + " --stop-after 40 --threads 3");
  ASSERT_EQ(part.code, 0) << part.err;
  const std::string resume =
      "train " + dataset_ + " --resume " + (dir_ / "part/checkpoint.safetensors");
  ASSERT_EQ(Run(resume + " --stop-after 50").code, 0) << "its budget is stored";
  ASSERT_EQ(Run(resume + " --steps 60").code, 0) << "and may be named again";
  EXPECT_TRUE(Bytes("whole/checkpoint.safetensors") == Bytes("part/checkpoint.safetensors"));
  EXPECT_TRUE(Bytes("whole/model.safetensors") == Bytes("part/model.safetensors"));
  const Outcome shown = Run("inspect " + (dir_ / "part/checkpoint.safetensors"));
  EXPECT_THAT(shown.out, ::testing::HasSubstr("budget 60 steps"));

  const Outcome spent =
      Run(extend.substr(0, extend.find("--steps")) + "--samples 10 --out " + (dir_ / "spent"));
  EXPECT_EQ(spent.code, 9);
  EXPECT_THAT(spent.err, ::testing::HasSubstr("samples already: the new total must be above that, "
                                              "not 10"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "spent"));
}

TEST_F(NerfEngineTest, SettingsMayBeWrittenShort) {
  const Outcome trained = Run(Train("o", 2) + " --set max_rays=1e4 --set finest_resolution=1k");
  EXPECT_EQ(trained.code, 0) << trained.err;
}

TEST_F(NerfEngineTest, SmallCountsAndSingleThingsReadWell) {
  const Outcome trained = Run(Train("o", 1));
  EXPECT_THAT(trained.out, ::testing::HasSubstr("trained 1 step, "));
  EXPECT_THAT(trained.err, ::testing::HasSubstr(", 1 thread\n"));
  const Outcome inspected = Run("inspect " + (dir_ / "o/model.safetensors"));
  EXPECT_THAT(inspected.out, ::testing::HasSubstr(", 64 rays\n"));
}

TEST_F(NerfEngineTest, MisspeltCommandsAndFlagsNameTheNearest) {
  const Outcome command = Run("trian " + dataset_ + " --steps 5");
  EXPECT_EQ(command.code, 2);
  EXPECT_THAT(command.err, ::testing::HasSubstr("no such command: 'trian'; did you mean train?\n"));
  const Outcome flag = Run(Train("o", 5) + " --back-ground white");
  EXPECT_EQ(flag.code, 2);
  EXPECT_THAT(flag.err, ::testing::HasSubstr("did you mean --background?\n"));
  EXPECT_THAT(Run("--frobnicate").err, ::testing::HasSubstr("no such flag: '--frobnicate'\n"));
  const std::pair<const char*, const char*> values[] = {
      {" --method npg", "did you mean ngp?"},  {" --background wite", "did you mean white?"},
      {" --feed rnak", "did you mean rank?"},  {" --pictures flie", "did you mean file?"},
      {" --device cpuu", "did you mean cpu?"}, {" --feed x", "'x' is not one of rank, central\n"}};
  for (const auto& [value, words] : values) {
    const Outcome refused = Run(Train("o", 5) + value);
    EXPECT_EQ(refused.code, 2) << value;
    EXPECT_THAT(refused.err, ::testing::HasSubstr(words));
  }
  EXPECT_THAT(Run("").err,
              ::testing::StartsWith("error: a command is missing; there are\n  train "));
}

TEST_F(NerfEngineTest, MisspelledFoldersNameTheNearest) {
  const std::string wrong = dir_ / "bal";
  for (const std::string& command : {"train " + wrong + " --out " + (dir_ / "o"), "check " + wrong,
                                     "pose " + wrong + " --out " + (dir_ / "o")}) {
    const Outcome refused = Run(command);
    EXPECT_EQ(refused.code, 5) << command;
    EXPECT_THAT(refused.err, ::testing::HasSubstr("did you mean " + dataset_ + "?")) << command;
  }
  std::ofstream(dir_ / "model.safetensors") << "no model";
  for (const std::string command : {"inspect ", "render --out x "}) {
    const Outcome refused = Run(command + (dir_ / "modle.safetensors"));
    EXPECT_EQ(refused.code, 5) << command;
    EXPECT_THAT(refused.err, ::testing::HasSubstr("/model.safetensors?")) << command;
  }
}

TEST_F(NerfEngineTest, PathsOfTheWrongKindAreNamedAsSuch) {
  ASSERT_EQ(Run(Train("run", 4)).code, 0);
  const std::string model = dir_ / "run/model.safetensors", run = dir_ / "run";
  std::ofstream(dir_ / "clip.mp4") << "a film";
  const struct {
    std::string arguments;
    int code;
    std::string says;
  } cases[] = {
      {"eval " + run + " " + dataset_, 9, "is a folder; a file is needed; did you mean " + model},
      {"render " + dataset_ + " --out " + (dir_ / "v"), 9, "writes RUN/model.safetensors"},
      {"render zzz --out " + (dir_ / "v"), 5, "zzz: there is no such file; `nerf-engine train "},
      {"inspect " + run, 9, "did you mean " + model},
      {"train zzz --out " + (dir_ / "v"), 5, "next: nerf-engine pose PHOTOS --out DIR"},
      {"check zzz", 5, "next: nerf-engine pose PHOTOS --out DIR"},
      {"import " + run + " --out " + (dir_ / "v"), 9, "is a folder; a file is needed"},
      {"train " + dataset_ + " --resume " + run + " --out " + (dir_ / "v"), 9,
       "did you mean " + run + "/checkpoint.safetensors?"},
      {"train " + dataset_ + " --init " + run + " --out " + (dir_ / "v"), 9,
       "did you mean " + model},
      {"train " + dataset_ + " --out " + model, 9, "model.safetensors: is a file; a folder is"},
      {"render " + model + " --out " + model, 9, "model.safetensors: is a file; a folder is"},
      {"eval " + model + " " + dataset_ + " --images " + model, 9, "is a file; a folder is needed"},
      {"eval " + model + " " + dataset_ + " --lpips " + model, 9,
       model + ": tensor features.0.weight is missing"},
      {"eval " + model + " " + dataset_ + " --lpips zzz.pth", 5, "zzz.pth: cannot be opened"},
      {"eval " + model + " " + model, 9, "is a file; name the folder of the data set"},
      {"train " + dataset_ + "/transforms_train.json --out " + (dir_ / "v"), 9,
       "did you mean " + dataset_ + "?"},
      {"train " + (dir_ / "clip.mp4") + " --out " + (dir_ / "v"), 9,
       "next: nerf-engine pose " + (dir_ / "clip.mp4")},
  };
  for (const auto& c : cases) {
    const Outcome refused = Run(c.arguments);
    EXPECT_EQ(refused.code, c.code) << c.arguments;
    EXPECT_EQ(refused.err.rfind("error: ", 0), 0u) << c.arguments << "\n" << refused.err;
    EXPECT_THAT(refused.err, ::testing::HasSubstr(c.says)) << c.arguments;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "v"));
  dir_.Write("notes/transforms_old.json", "{}");
  const Outcome notes =
      Run("train " + (dir_ / "notes/transforms_old.json") + " --out " + (dir_ / "v"));
  EXPECT_THAT(notes.err, ::testing::EndsWith("is a file; name the folder of the data set\n"))
      << "its folder is no data set either";
}

TEST_F(NerfEngineTest, PhotographsWithoutPosesAreRefusedOnceAndPosingIsSuggested) {
  const std::string photos = dir_ / "photos";
  std::filesystem::create_directory(photos);
  std::ofstream(photos + "/1.jpg") << "a photograph";
  const std::string next =
      "next: nerf-engine pose " + photos + " --out " + photos + "-posed   (finds ";
  const Outcome trained = Run("train " + photos + " --out " + (dir_ / "o"));
  EXPECT_EQ(trained.code, 9);
  EXPECT_THAT(trained.err, ::testing::HasSubstr(next));
  const size_t first = trained.err.find("there are no camera poses");
  ASSERT_NE(first, std::string::npos) << trained.err;
  EXPECT_EQ(trained.err.find("there are no camera poses", first + 1), std::string::npos);
  const Outcome checked = Run("check " + photos);
  EXPECT_EQ(checked.code, 9);
  EXPECT_THAT(checked.err, ::testing::HasSubstr(next));
}

TEST_F(NerfEngineTest, PoseSaysBeforehandThatItCannotBegin) {
  dir_.Write("photos/1.jpg", "a photograph");
  const std::string pose = "pose " + (dir_ / "photos") + " --out " + (dir_ / "photos-posed");
  const Outcome checked = Run(pose + " --validate-only --colmap /no/colmap");
  const Outcome posed = Run(pose + " --colmap /no/colmap");
  EXPECT_EQ(checked.code, 2);
  EXPECT_EQ(checked.err, posed.err);
  EXPECT_THAT(checked.err, ::testing::HasSubstr("error: /no/colmap is not installed"));
  EXPECT_EQ(Run("pose " + (dir_ / "none") + " --out " + (dir_ / "p") + " --validate-only").code, 5);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "photos-posed"));
}

TEST_F(NerfEngineTest, PhotographsAddedAfterPosingAreNamed) {
  const std::string photos = dir_ / "photos";
  dir_.Write("photos/1.jpg", "a photograph");
  dir_.Write("photos/2.jpg", "a photograph");
  dir_.Write("photos-posed/transforms.json", "{}");
  dir_.Write("photos-posed/pose.json", R"({"photos":[{"name":"1.jpg"}]})");
  const Outcome trained = Run("train " + photos + " --out " + (dir_ / "o"));
  EXPECT_EQ(trained.code, 9);
  EXPECT_THAT(trained.err, ::testing::HasSubstr("next: nerf-engine train " + photos + "-posed "));
  EXPECT_THAT(trained.err,
              ::testing::HasSubstr("-posed, so it is not used: 2.jpg\n  mv " + photos + "-posed " +
                                   photos + "-posed-old && nerf-engine pose " + photos));
}

TEST_F(NerfEngineTest, TrainingEndsWithTheNextCommandAndReasonsOfALowPsnr) {
  const Outcome trained = Run(Train("'few steps'", 2));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, ::testing::HasSubstr("dB is low; its likely reasons:\n"
                                                "  - little training (0.0 M samples)"));
  const size_t at = trained.err.find("next: nerf-engine ");
  ASSERT_NE(at, std::string::npos) << trained.err;
  std::string command = trained.err.substr(at + std::string("next: nerf-engine ").size());
  command.resize(command.find('\n'));
  const Outcome rendered = Run(command + " --frames 1 --width 8");
  EXPECT_EQ(rendered.code, 0) << command << rendered.err;
}

TEST_F(NerfEngineTest, BudgetsMayHaveAUnit) {
  const std::string train = "train " + dataset_ + " --out " + (dir_ / "unit") +
                            " --json --set log2_hashmap_size=12 --set initial_rays=64 ";
  for (const char* steps : {"0.003k", "0.003K"}) {
    const Outcome trained = Run(train + "--steps " + steps);
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(trained.Last()["step"], 3);
  }
  const Outcome timed = Run(train + "--seconds 10ms --checkpoint-interval 1h");
  ASSERT_EQ(timed.code, 0) << timed.err;
  const std::string model = dir_ / "unit/model.safetensors";
  EXPECT_EQ(Run("inspect --json " + model).Last()["metadata"]["budget"], "seconds 0.01");
  const Outcome wrong = Run(train + "--samples 3x --seed many --frobnicate 1 --stpes 2");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err,
            "error: --samples: '3x' is not a number above 0, such as 20000 or 40M\n"
            "  --seed: 'many' is not a whole number from 0\n"
            "  no such flag: '--frobnicate'\n"
            "  no such flag: '--stpes'; did you mean --steps?\n"
            "  run `nerf-engine train --help` for usage\n");
}

TEST_F(NerfEngineTest, EveryWrongValueIsNamedAtOnce) {
  const Outcome trained = Run(Train("o", 5) +
                              " --background plaid --device toaster --init-scope half --init x"
                              " --set nonsense=1 --set near --set beta1=2");
  EXPECT_EQ(trained.code, 2);
  for (const char* words : {"'plaid' is not one of", "toaster", "--init-scope: 'half'", "nonsense",
                            "--set near: must", "beta1"}) {
    EXPECT_THAT(trained.err, ::testing::HasSubstr(words));
  }
  const Outcome rendered = Run("render m --path circle --channels blue --video v.gif");
  EXPECT_EQ(rendered.code, 2);
  for (const char* words : {"--path: 'circle'", "channels: 'blue'", "v.gif"})
    EXPECT_THAT(rendered.err, ::testing::HasSubstr(words));
}

TEST_F(NerfEngineTest, HelpCommandPrintsTheHelpOfACommand) {
  const Outcome help = Run("help render");
  ASSERT_EQ(help.code, 0) << help.err;
  EXPECT_EQ(help.out, Run("render --help").out);
  EXPECT_EQ(Run("help").out, Run("--help").out);
  const Outcome wrong = Run("help rendr");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err, "error: no such command: 'rendr'; did you mean render?\n");
}

TEST_F(NerfEngineTest, ModelsThatDoNotFitAreExplained) {
  ASSERT_EQ(Run(Train("o", 2)).code, 0);
  const std::string model = dir_ / "o/model.safetensors";
  const Outcome other = Run("train " + dataset_ + " --method voxels --steps 2 --init " + model +
                            " --out " + (dir_ / "v"));
  EXPECT_EQ(other.code, 9);
  EXPECT_THAT(other.err,
              ::testing::HasSubstr("was trained by method ngp, whose weights method voxels cannot "
                                   "start from; --method ngp can\n"));
  const Outcome none =
      Run("train " + dataset_ + " --method voxels --steps 2 --init auto --out " + (dir_ / "v"));
  EXPECT_THAT(none.err, ::testing::HasSubstr("model.safetensors: trained by method ngp"));
  const std::string readme = SourceDir() + "/README.md";
  for (const std::string& command :
       {"render " + readme + " --out " + (dir_ / "v"), "inspect " + readme}) {
    const Outcome refused = Run(command);
    EXPECT_EQ(refused.code, 9);
    EXPECT_THAT(refused.err, ::testing::HasSubstr("README.md: no model or checkpoint: it does not "
                                                  "begin as safetensors files do"));
    EXPECT_THAT(refused.err, ::testing::HasSubstr("nerf-engine train writes model.safetensors"));
  }
}

TEST_F(NerfEngineTest, ExplainSaysOneSentenceFirstAndPrintsAllMeasuresAsJson) {
  ASSERT_EQ(Run(Train("o", 4) + " --no-eval").code, 0);
  const Outcome json = Run("explain " + (dir_ / "o") + " " + dataset_ + " --json");
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_THAT(json.out, ::testing::StartsWith(R"({"event":"measuring","view":0,"views":)"));
  const Json all = json.Last();
  ASSERT_EQ(all["views"].size(), 8u) << "six training and two test views";
  EXPECT_TRUE(all["views"][7]["test"]);
  EXPECT_GT(all["views"][7]["psnr_camera_aligned"], 0);
  EXPECT_EQ(all["held_out"], true);
  ASSERT_FALSE(all["causes"].empty()) << "four steps are a small budget";
  EXPECT_EQ(all["sentence"], all["causes"][0]["sentence"]);
  const Outcome text = Run("explain " + (dir_ / "o/model.safetensors") + " " + dataset_);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, ::testing::StartsWith(all["sentence"].get<std::string>() + "\n"));
  EXPECT_THAT(text.out, ::testing::HasSubstr("test views"));
}

TEST_F(NerfEngineTest, ExplainWithoutTestViewsOrOnOtherFilesSaysSo) {
  const std::string single = dir_ / "single";
  WriteBallDataset(single, 6, 0);
  ASSERT_EQ(Run("train " + single + " --out " + (dir_ / "o") +
                Train("", 4).substr(Train("", 4).find(" --steps")) + " --no-eval --test-every 0")
                .code,
            0);
  const Outcome none = Run("explain " + (dir_ / "o") + " " + single);
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.out, ::testing::HasSubstr("each 8th training view stands for a test view"));
  const std::string other = dir_ / "other";
  WriteBallDataset(other, 2);
  EXPECT_THAT(Run("explain " + (dir_ / "o") + " " + other).err,
              ::testing::HasSubstr("most likely another data set than the model's"));
  std::filesystem::create_directory(dir_ / "empty");
  const struct {
    std::string arguments;
    int code;
    std::string says;
  } cases[] = {
      {(dir_ / "zzz") + " " + single, 5, "zzz: there is no such file; `nerf-engine train "},
      {(dir_ / "empty") + " " + single, 9, "is a folder; a file is needed"},
      {(dir_ / "o") + " " + (dir_ / "zzz"), 5, "next: nerf-engine pose PHOTOS --out DIR"},
      {(dir_ / "o") + " " + (dir_ / "empty"), 9, "no photographs in it"},
      {dir_ / "o", 2, "DIR is required"},
      {(dir_ / "o") + " " + single + " --device gpu", 2, "gpu"},
  };
  for (const auto& c : cases) {
    const Outcome refused = Run("explain " + c.arguments);
    EXPECT_EQ(refused.code, c.code) << c.arguments;
    EXPECT_THAT(refused.err, ::testing::HasSubstr(c.says)) << c.arguments;
    EXPECT_EQ(refused.out, "") << c.arguments;
  }
}

TEST_F(NerfEngineTest, EvalOnAnotherDataSetWarnsAndOnNoneSaysWhatIsNext) {
  ASSERT_EQ(Run(Train("o", 2)).code, 0);
  const std::string eval = "eval " + (dir_ / "o/model.safetensors") + " ";
  const Outcome same = Run(eval + dataset_);
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.err, ::testing::Not(::testing::HasSubstr("warning:")));
  const std::string other = dir_ / "other";
  std::filesystem::copy(dataset_, other, std::filesystem::copy_options::recursive);
  std::string list = Bytes("other/transforms_train.json");
  for (size_t at = 0; (at = list.find("train/", at)) != std::string::npos; at += 8)
    list.replace(at, 6, "moved/");
  std::filesystem::rename(other + "/train", other + "/moved");
  dir_.Write("other/transforms_train.json", list);
  const Outcome warned = Run(eval + other);
  EXPECT_EQ(warned.code, 0) << "a warning, no refusal";
  EXPECT_THAT(warned.err, ::testing::HasSubstr("warning: " + other +
                                               " is most likely another data set than the model's: "
                                               "it has 0 of the "));
  const Outcome missing = Run(eval + "zzz");
  EXPECT_EQ(missing.code, 5);
  EXPECT_THAT(missing.err, ::testing::HasSubstr("next: nerf-engine pose PHOTOS --out DIR"));
  std::filesystem::create_directory(dir_ / "empty");
  EXPECT_THAT(Run(eval + (dir_ / "empty")).err,
              ::testing::StartsWith("error: " + (dir_ / "empty") +
                                    ": no photographs in it or in images/; contains neither"));
}

TEST_F(NerfEngineTest, FlagsThatChooseViewsAreSuggestedAndExcludeEachOther) {
  EXPECT_EQ(Run("render m --camra x --orbt 3").err,
            "error: no such flag: '--camra'; did you mean --camera?\n"
            "  no such flag: '--orbt'; did you mean --orbit?\n"
            "  run `nerf-engine render --help` for usage\n");
  const Outcome help = Run("help render");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, ::testing::HasSubstr("--camera"));
  EXPECT_THAT(help.out, ::testing::Not(::testing::HasSubstr("Option Group")));
  for (const char* flags :
       {"--camera x --orbit 3", "--camera x --path spiral", "--orbit 3 --path spiral"}) {
    const Outcome both = Run(std::string("render m --out o ") + flags);
    EXPECT_EQ(both.code, 2) << flags;
    EXPECT_THAT(both.err, ::testing::HasSubstr(" excludes --")) << flags;
  }
}

TEST_F(NerfEngineTest, ComparisonsWithAnotherFocalLengthSaySo) {
  ASSERT_EQ(Run(Train("o", 2)).code, 0);
  const std::string other = dir_ / "other";
  std::filesystem::copy(dataset_, other, std::filesystem::copy_options::recursive);
  for (const char* file : {"other/transforms_train.json", "other/transforms_test.json"}) {
    Json list = Json::parse(Bytes(file));
    list["camera_angle_x"] = 2 * std::atan(2 * std::tan(list["camera_angle_x"].get<double>() / 2));
    dir_.Write(file, list.dump());
  }
  const std::string model = dir_ / "o/model.safetensors";
  const std::string render = " --out " + (dir_ / "r") + " --camera ";
  for (const std::string& command : {"eval " + model + " ", "render " + model + render}) {
    const Outcome same = Run(command + dataset_), wrong = Run(command + other);
    ASSERT_EQ(same.code, 0) << same.err;
    ASSERT_EQ(wrong.code, 0) << wrong.err;
    EXPECT_THAT(same.err, ::testing::AllOf(::testing::HasSubstr("little training"),
                                           ::testing::Not(::testing::HasSubstr("focal length"))));
    EXPECT_THAT(wrong.err, ::testing::HasSubstr("dB is low; its likely reasons:\n  - another focal "
                                                "length: it is 0.50 times that of the training"));
    EXPECT_THAT(wrong.err, ::testing::HasSubstr("`nerf-engine check " + other + "`"));
  }
}

TEST_F(NerfEngineTest, CamerasOfOtherProgramsSayWhichFrameTheyAreReadIn) {
  ASSERT_EQ(Run(Train("o", 2)).code, 0);
  dir_.Write("path.json", R"({"render_width": 16, "render_height": 12, "camera_path": [
      {"camera_to_world": [1,0,0,0.5, 0,0,-1,-4, 0,1,0,0.25, 0,0,0,1], "fov": 50}]})");
  const std::string render = "render " + (dir_ / "o/model.safetensors") + " --camera " +
                             (dir_ / "path.json") + " --out " + (dir_ / "r");
  const std::string words =
      "path.json: read in the frame that nerfstudio gives this model's data set; --dataset DIR "
      "names another\n";
  const Outcome silent = Run(render);
  ASSERT_EQ(silent.code, 0) << silent.err;
  EXPECT_THAT(silent.err, ::testing::HasSubstr(words));
  const Outcome named = Run(render + " --dataset " + dataset_);
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(named.err, ::testing::Not(::testing::HasSubstr("read in the frame")));
  // A model without training cameras, as one that was imported.
  TensorFile file = *ReadTensorFile(dir_ / "o/model.safetensors");
  std::erase_if(file.metadata,
                [](const auto& entry) { return entry.first.starts_with("capture."); });
  ASSERT_THAT(WriteTensorFile(file, dir_ / "o/model.safetensors"), IsOk());
  const Outcome unknown = Run(render);
  ASSERT_EQ(unknown.code, 0) << unknown.err;
  EXPECT_THAT(unknown.err, ::testing::HasSubstr(
                               "path.json: read in the frame that nerfstudio gives a data set of "
                               "Blender; the model stores no cameras that could confirm it"));
}

TEST_F(NerfEngineTest, PicturesInAFileGiveTheSameBytes) {
  const auto exists = [&](const std::string& file) { return std::filesystem::exists(dir_ / file); };
  ASSERT_EQ(Run(Train("memory", 40) + " --no-eval --pictures memory").code, 0);
  const Outcome trained =
      Run(Train("file", 40) + " --no-eval --pictures file --batches-ahead 1 --json");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(Bytes("file/checkpoint.safetensors"), Bytes("memory/checkpoint.safetensors"));
  EXPECT_FALSE(exists("file/pictures.raw"));
  EXPECT_GE(trained.Last()["stall_fraction"], 0.0);
  EXPECT_LE(trained.Last()["stall_fraction"], 1.0);

  // A training that is not over keeps the file, and goes on with it.
  ASSERT_EQ(Run(Train("half", 40) + " --no-eval --pictures file --stop-after 20").code, 0);
  EXPECT_TRUE(exists("half/pictures.raw"));
  ASSERT_EQ(Run("train " + dataset_ + " --no-eval --threads 1 --pictures file --resume " +
                (dir_ / "half/checkpoint.safetensors"))
                .code,
            0);
  EXPECT_EQ(Bytes("half/checkpoint.safetensors"), Bytes("memory/checkpoint.safetensors"));
  EXPECT_FALSE(exists("half/pictures.raw"));

  // A file that was named stays for the next training.
  const std::string named = " --no-eval --pictures file --picture-file " + (dir_ / "named.raw");
  ASSERT_EQ(Run(Train("named1", 40) + named).code, 0);
  ASSERT_EQ(Run(Train("named2", 40) + named).code, 0);
  EXPECT_TRUE(exists("named.raw"));
  EXPECT_EQ(Bytes("named2/checkpoint.safetensors"), Bytes("memory/checkpoint.safetensors"));
}

TEST_F(NerfEngineTest, PixelsDrawnFromReducedPicturesOrByErrorsOfAFileGiveTheSameBytes) {
  ASSERT_EQ(Run(Train("plain", 40) + " --no-eval").code, 0);
  for (const std::string setting : {"coarse_pictures", "error_share"}) {
    const std::string set = " --no-eval --set " + setting + "=0.5";
    ASSERT_EQ(Run(Train("memory", 40) + set + " --pictures memory").code, 0);
    const std::string expected = Bytes("memory/checkpoint.safetensors");
    EXPECT_NE(Bytes("plain/checkpoint.safetensors"), expected);
    ASSERT_EQ(Run(Train("file", 40) + set + " --pictures file --batches-ahead 3").code, 0);
    EXPECT_EQ(Bytes("file/checkpoint.safetensors"), expected);
    const bool reduced = setting == "coarse_pictures";
    const Outcome refused =
        Run(Train("refused", 40) + set + (reduced ? " --method ngp-tiles" : " --ranks 2"));
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, ::testing::HasSubstr(setting));
  }
}

TEST_F(NerfEngineTest, BenchTellsWhatItDidASecond) {
  const Outcome bench =
      Run("bench --filter '^dense_forward_64x64$' --seconds 0.01 --threads 2 --json");
  ASSERT_EQ(bench.code, 0) << bench.err;
  const Json line = Json::parse(bench.out.substr(0, bench.out.find('\n')));
  EXPECT_EQ(line["name"], "dense_forward_64x64");
  const double samples = line["items_per_second"];
  EXPECT_GT(samples, 0);
  EXPECT_NEAR(line["flops_per_second"].get<double>(), 2 * 64 * 64 * samples, 1e-6 * samples);
  EXPECT_NEAR(line["bytes_per_second"].get<double>(), 4 * (64 + 64) * samples, 1e-6 * samples);
  const Outcome ceiling = Run("bench --filter ceiling_fma --seconds 0.01 --threads 1 --json");
  ASSERT_EQ(ceiling.code, 0) << ceiling.err;
  const Json fma = Json::parse(ceiling.out.substr(0, ceiling.out.find('\n')));
  EXPECT_EQ(fma["flops_per_second"].get<double>(), 2 * fma["items_per_second"].get<double>());
}

TEST_F(NerfEngineTest, TilesThatAreTrainedApartAreMerged) {
  const std::string tiles = " --method ngp-tiles --set tiles=2";
  ASSERT_EQ(Run(Train("whole", 21) + tiles).code, 0);
  for (const std::string tile : {"0", "1"}) {
    const Outcome trained = Run(Train("tile" + tile, 21) + tiles + " --json --set tile=" + tile);
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_FALSE(trained.Last().contains("psnr")) << trained.Last();
  }
  const std::string zero = dir_ / "tile0/model.safetensors", one = dir_ / "tile1/model.safetensors";
  const Outcome merged = Run("merge --out " + (dir_ / "m.safetensors") + " " + one + " " + zero);
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_THAT(merged.out, ::testing::HasSubstr(" of 2 models"));
  EXPECT_EQ(Bytes("m.safetensors"), Bytes("whole/model.safetensors"));
  const Outcome missing = Run("merge --json --out " + (dir_ / "none.safetensors") + " " + one);
  EXPECT_EQ(missing.code, 9) << missing.err;
  EXPECT_THAT(missing.err, ::testing::HasSubstr("tile 0 of 2 is missing"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "none.safetensors"));
}

TEST_F(NerfEngineTest, ScenesWithoutTestViewsTrainWithoutPsnr) {
  WriteBallDataset(dir_ / "all", 4, 0);
  std::filesystem::rename(dir_ / "all/transforms_train.json", dir_ / "all/transforms.json");
  const Outcome trained = Run("train " + (dir_ / "all") + " --out " + (dir_ / "o") +
                              " --steps 3 --test-every 0 --json --set log2_hashmap_size=12");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(trained.Last()["psnr"].is_null());
}

TEST_F(NerfEngineTest, ExitCodesSayWhatWentWrong) {
  std::ofstream(dir_ / "bad") << "no checkpoint";
  std::filesystem::create_directory(dir_ / "empty");
  const std::string train = "train " + dataset_ + " --out " + (dir_ / "o");
  const struct {
    std::string arguments;
    int code;
  } cases[] = {
      {"--version", 0},
      {"-v", 0},
      {"--help", 0},
      {"train --help", 0},
      {"", 2},
      {"fly", 2},
      {"train", 2},
      {"train " + dataset_, 2},
      {train + " --steps 5 --seconds 5", 2},
      {train + " --steps -5", 2},
      {train + " --steps many", 2},
      {train + " --steps 1.5", 2},
      {train + " --set nonsense=1", 2},
      {train + " --set learning_rate", 2},
      {train + " --background plaid", 2},
      {train + " --device cuda:0", 2},
      {train + " --device toaster", 2},
      {train + " --method magic", 2},
      {train + " --init-scope half --init x", 2},
      {train + " --test-every 1", 2},
      {train + " --checkpoint-interval 0", 2},
      {train + " --checkpoint-interval often", 2},
      {train + " --resume x --steps 5 --samples 5", 2},
      {train + " --resume x --samples 1e16", 2},
      {train + " --resume x --samples 0", 2},
      {train + " --resume " + (dir_ / "bad") + " --samples 1M", 9},
      {train + " --resume " + (dir_ / "none"), 5},
      {train + " --resume " + (dir_ / "bad"), 9},
      {"train " + (dir_ / "none") + " --out " + (dir_ / "o"), 5},
      {"train " + (dir_ / "empty") + " --out " + (dir_ / "o"), 9},
      {"eval " + (dir_ / "none") + " " + dataset_, 5},
      {"eval " + (dir_ / "none") + " " + dataset_ + " --test-every -1", 2},
      {"eval " + (dir_ / "bad") + " " + dataset_, 9},
      {"render " + (dir_ / "bad") + " --orbit 3 --out " + (dir_ / "o"), 9},
      {"render " + (dir_ / "bad") + " --out " + (dir_ / "o"), 9},
      {"render " + (dir_ / "bad"), 2},
      {"render " + (dir_ / "bad") + " --orbit 3 --camera x --out " + (dir_ / "o"), 2},
      {"render " + (dir_ / "bad") + " --orbit 3 --channels normals --out " + (dir_ / "o"), 2},
      {"inspect " + (dir_ / "bad"), 9},
      {"inspect " + (dir_ / "none"), 5},
      {"merge " + (dir_ / "bad") + " --out " + (dir_ / "o"), 9},
      {"merge " + (dir_ / "none") + " --out " + (dir_ / "o"), 5},
      {"merge " + (dir_ / "none"), 2},
      {"merge --out " + (dir_ / "o"), 2},
      {"check " + dataset_, 0},
      {"check " + (dir_ / "empty"), 9},
      {"check " + dataset_ + " --poses opencv --apply-exif", 0},
      {"check " + dataset_ + " --poses sideways", 2},
      {"check " + (dir_ / "none"), 5},
      {"bench --filter '['", 2},
      {"bench --filter no_such_bench", 0},
      {"doctor", 0},
      {"doctor --choices --choices", 0},
      {"doctor " + dataset_, 2},
      {"doctor --choices " + dataset_ + " " + dataset_, 2},
      {"doctor --choices " + (dir_ / "none"), 5},
      {"doctor --choices ''", 5},
      {"serve", 2},
      {"serve --device cuda:0", 2},
  };
  for (const auto& c : cases) {
    const Outcome outcome = Run(c.arguments);
    EXPECT_EQ(outcome.code, c.code) << c.arguments << "\n" << outcome.out << outcome.err;
    // A check lists its errors on standard output.
    if (c.code != 0 && !c.arguments.starts_with("check")) {
      EXPECT_EQ(outcome.err.rfind("error: ", 0), 0u) << c.arguments << "\n" << outcome.err;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o"));
}

TEST_F(NerfEngineTest, FailuresLeaveNoFolderBehind) {
  ASSERT_EQ(Run(Train("run", 4)).code, 0);
  const std::string model = dir_ / "run/model.safetensors";
  std::filesystem::create_directory(dir_ / "empty");
  const std::string made = dir_ / "made", out = made + "/deep";
  for (const std::string& command :
       {"train " + (dir_ / "none") + " --out " + out, "train " + (dir_ / "empty") + " --out " + out,
        "train " + dataset_ + " --pictures file --resume " + (dir_ / "none") + " --out " + out,
        "ablate " + (dir_ / "none") + " --vary near=0.1 --out " + out,
        "eval " + model + " " + (dir_ / "none") + " --images " + out,
        "render " + model + " --camera " + (dir_ / "none") + " --out " + out,
        "render " + model + " --frames 1 --video " + out + "/x.mp4 --ffmpeg /none",
        "pose " + (dir_ / "empty") + " --out " + out,
        "merge " + model + " --out " + out + "/m.safetensors",
        "import " + (dir_ / "none") + " --out " + out + "/m.safetensors"}) {
    const Outcome failed = Run(command);
    EXPECT_NE(failed.code, 0) << command;
    EXPECT_EQ(failed.err.rfind("error: ", 0), 0u) << command << "\n" << failed.err;
    EXPECT_FALSE(std::filesystem::exists(made)) << command;
  }
}

TEST_F(NerfEngineTest, DoctorNamesWhatIsNotBuiltInOneLine) {
  const std::string alone = dir_ / "bin";  // without the libraries of methods
  std::filesystem::create_directory(alone);
  std::filesystem::copy_file(BinDir() + "/nerf-engine", alone + "/nerf-engine");
  const Outcome outcome = Run("doctor", alone);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::HasSubstr("\noptional  ngp-autograd, mlp-autograd,"));
  EXPECT_THAT(outcome.out, ::testing::Not(::testing::HasSubstr("missing")));
}

TEST_F(NerfEngineTest, DoctorAndCheckSpeakJson) {
  const Json doctor = Run("doctor --json").Last();
  EXPECT_EQ(doctor["event"], "done");
  EXPECT_EQ(doctor["devices"], Json({"cpu"}));
  EXPECT_TRUE(doctor["simd"].is_string());
  EXPECT_THAT(doctor["sandbox"].get<std::string>(), ::testing::HasSubstr("seccomp"));
  const Json check = Run("check " + dataset_ + " --json").Last();
  EXPECT_EQ(check["event"], "done");
  EXPECT_EQ(check["ok"], true);
  const Json choices = Run("doctor --choices --json " + dataset_).Last();
  EXPECT_EQ(choices["event"], "done");
  EXPECT_EQ(choices["facts"]["train"], 6);
  EXPECT_EQ(choices["rules"].size(), Run("doctor --choices --json").Last()["rules"].size());
  EXPECT_EQ(Run("doctor --choices --json " + (dir_ / "none")).Last()["code"], "NOT_FOUND");
}

TEST_F(NerfEngineTest, DoctorListsTheSimdPathsOfThisMachineAndHowToTakeOne) {
  const std::vector<std::string> paths = kernels::cpu::SimdPaths();
  const Json doctor = Run("doctor --json").Last();
  EXPECT_EQ(doctor["simd_paths"], Json(paths));
  const auto has = [&paths](const char* path) {
    return std::find(paths.begin(), paths.end(), path) != paths.end();
  };
  const bool is_amd = doctor["cpu"].get<std::string>().starts_with("AMD");
  EXPECT_EQ(doctor["simd"], has("AMX")                     ? "AMX"
                            : has("AVX512_BF16") && is_amd ? "AVX512_BF16"
                                                           : paths[0]);
  const ScopedEnvironment forced("NERF_SIMD", "FP32");
  EXPECT_EQ(Run("doctor --json").Last()["simd"], paths[0]);
  const std::string line = fmt::format("simd      {}; NERF_SIMD=", fmt::join(paths, ", "));
  const Outcome in_words = Run("doctor");
  EXPECT_NE(in_words.out.find(line), std::string::npos) << in_words.out;
}

TEST_F(NerfEngineTest, EverySimdPathOfThisMachineCanBeForcedAndRepeatsItsBytes) {
  const std::vector<std::string> paths = kernels::cpu::SimdPaths();
  ASSERT_FALSE(paths.empty());
  for (const std::string& path : paths) {
    const ScopedEnvironment forced("NERF_SIMD", path);
    EXPECT_EQ(Run("doctor --json").Last()["simd"], path);
    EXPECT_NE(Run("bench --filter ^sigmoid --threads 1").out.find(path), std::string::npos);
    ASSERT_EQ(Run(Train("a" + path, 20)).code, 0);
    ASSERT_EQ(Run(Train("b" + path, 20, 3)).code, 0);
    EXPECT_TRUE(Bytes("a" + path + "/checkpoint.safetensors") ==
                Bytes("b" + path + "/checkpoint.safetensors"))
        << path;
  }
  const ScopedEnvironment forced("NERF_SIMD", "MMX");
  const Outcome refused = Run("doctor");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("NERF_SIMD: 'MMX'"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find(paths.front()), std::string::npos) << refused.err;
}

TEST_F(NerfEngineTest, FailureInJsonModeIsALineToo) {
  const Json failed = Run("train " + (dir_ / "none") + " --out " + (dir_ / "o") + " --json").Last();
  EXPECT_EQ(failed["event"], "failed");
  EXPECT_EQ(failed["code"], "NOT_FOUND");
}

TEST_F(NerfEngineTest, SignalsWriteACheckpointThatGoesOn) {
  const std::string engine = BinDir() + "/nerf-engine ";
  EXPECT_EQ(ExitCodeAfterSignal(engine + Train("term", 1000000) + " --json", dir_ / "t",
                                "\"progress\"", SIGTERM),
            143);
  EXPECT_EQ(ExitCodeAfterSignal(engine + Train("int", 1000000) + " --json", dir_ / "i",
                                "\"progress\"", SIGINT),
            130);
  for (const auto& [out, said_in] : {std::pair("term", "t"), std::pair("int", "i")}) {
    const Outcome inspected =
        Run("inspect --json " + (dir_ / (std::string(out) + "/checkpoint.safetensors")));
    ASSERT_EQ(inspected.code, 0) << inspected.err;
    const int step = inspected.Last()["step"];
    EXPECT_GT(step, 0);
    // The command in the message can be run as it is.
    const std::string said = ReadFile(dir_ / said_in, 1 << 24).value_or("");
    const std::string go_on = "to go on: nerf-engine ";
    const size_t begin = said.find(go_on);
    ASSERT_NE(begin, std::string::npos) << said;
    const std::string command =
        said.substr(begin + go_on.size(), said.find('\n', begin) - begin - go_on.size());
    const Outcome resumed = Run(command + " --json --stop-after " + std::to_string(step + 1));
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(resumed.Last()["step"], step + 1);
  }
}

TEST_F(NerfEngineTest, KilledTrainingGoesOnFromItsCheckpointToTheSameBytes) {
  ASSERT_EQ(Run(Train("whole", 2000)).code, 0);
  const std::string killed =
      BinDir() + "/nerf-engine " + Train("killed", 2000) + " --json --checkpoint-interval 0.02";
  EXPECT_EQ(ExitCodeAfterSignal(killed, dir_ / "k", "\"checkpoint\"", SIGKILL), 128 + SIGKILL);
  const Outcome inspected = Run("inspect --json " + (dir_ / "killed/checkpoint.safetensors"));
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  const int step = inspected.Last()["step"];
  ASSERT_GT(step, 0);
  ASSERT_LT(step, 2000);
  const Outcome resumed = Run("train " + dataset_ + " --out " + (dir_ / "resumed") + " --resume " +
                              (dir_ / "killed/checkpoint.safetensors"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(Bytes("whole/checkpoint.safetensors") == Bytes("resumed/checkpoint.safetensors"));
  EXPECT_TRUE(Bytes("whole/model.safetensors") == Bytes("resumed/model.safetensors"));
}

TEST_F(NerfEngineTest, CheckpointsOnTheWayChangeNoByteAndNoStepHasTwo) {
  ASSERT_EQ(Run(Train("few", 30)).code, 0);
  const Outcome many = Run(Train("many", 30) + " --json --checkpoint-interval 0.001");
  ASSERT_EQ(many.code, 0) << many.err;
  std::vector<int> steps;
  for (size_t at = 0; (at = many.out.find(R"({"event":"checkpoint","step":)", at)) != many.out.npos;
       ++at) {
    steps.push_back(std::stoi(many.out.substr(at + 29)));
  }
  EXPECT_GT(steps.size(), 1u);
  EXPECT_EQ(std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()), steps.end());
  EXPECT_EQ(steps.back(), 30);
  EXPECT_TRUE(Bytes("few/checkpoint.safetensors") == Bytes("many/checkpoint.safetensors"));
  EXPECT_TRUE(Bytes("few/model.safetensors") == Bytes("many/model.safetensors"));
}

}  // namespace
}  // namespace nerf
