// Runs the examples of every command's help, and the commands that outputs suggest, as typed,
// against a scripted server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/messages/blob_ref.h"
#include "common/process/child_process.h"
#include "common/process/exit_code.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/paths.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Words = std::vector<std::string>;

Words LinesOf(const std::string& text) {
  Words lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// The words of a shell command. Quotes are '.
Words WordsOf(const std::string& line) {
  Words words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c != ' ' || quoted) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

std::string HelpOf(Words command) {
  command.emplace_back("--help");
  return RunCommand(command).out;
}

// The verbs of a noun, from its help; none of a command that runs.
Words VerbsOf(const std::string& help) {
  Words verbs;
  bool listed = false;
  for (const std::string& line : LinesOf(help)) {
    if (listed && line.starts_with("  ") && line[2] != ' ')
      verbs.push_back(WordsOf(line.substr(2))[0]);
    listed = line == "Subcommands:" || (listed && !line.empty());
  }
  return verbs;
}

// The words after `nerfctl` of each example.
std::vector<Words> ExamplesOf(const std::string& help) {
  const std::string whole = absl::StrReplaceAll(help, {{"\\\n", " "}});
  std::vector<Words> examples;
  const size_t begin = whole.find("\nExample");
  if (begin == std::string::npos) return examples;
  for (const std::string& line : LinesOf(whole.substr(begin))) {
    Words words = WordsOf(line.substr(std::min(line.find_first_not_of(' '), line.size())));
    if (words[0] == "nerfctl") examples.emplace_back(words.begin() + 1, words.end());
  }
  return examples;
}

class CommandTableTest : public ServiceTest {
 protected:
  const TempDir dir_;

  CommandTableTest() : before_(fs::current_path()) {
    fs::current_path(dir_.path());
    fs::create_directory_symlink(SourceDir() + "/examples", "examples");
    fs::create_directory_symlink(SourceDir() + "/examples/mic", "photos");
    fs::create_directory("garden");
    dir_.Write("garden/1.jpg", "a photograph");
    dir_.Write("clip.mp4", "a film");
    dir_.Write("token", "t0ken-of-the-test\n");
    dir_.Write("camera_path.json", R"({"render_width": 64, "render_height": 48, "camera_path": [
        {"camera_to_world": [1,0,0,0.5, 0,0,-1,-4, 0,1,0,0.25, 0,0,0,1], "fov": 50}]})");
    ImageU8 view{.width = 64, .height = 48, .n_channels = 3, .pixels = {}};
    view.pixels.assign(size_t{64} * 48 * 3, 200);
    state_.rendered_rgb = EncodePng(view).value();
    state_.validation.set_ok(true);
    AddModel("the model");
    v1::Job& job = state_.jobs.emplace_back();
    job.set_name("projects/default/jobs/j-7f3k2c81");
    job.mutable_training();
    *job.mutable_training_status()->mutable_progress()->mutable_preview_image() =
        BlobOfBytes(state_.rendered_rgb);
    state_.blobs[Sha256Hex(state_.rendered_rgb)] = state_.rendered_rgb;
  }
  ~CommandTableTest() override { fs::current_path(before_); }

  // Calls `check` for each example of each command that runs, with a context of the name lab.
  void ForEachExample(const std::function<void(Words)>& check) {
    const auto walk = [&](const auto& self, const Words& command) -> void {
      const std::string help = HelpOf(command);
      for (const std::string& verb : VerbsOf(help)) {
        Words deeper = command;
        deeper.push_back(verb);
        self(self, deeper);
      }
      if (!VerbsOf(help).empty()) return;
      // They print help and scripts, not results.
      if (command[0] == "help" || command[0] == "completion") return;
      if (command[0] == "open") return;  // the fake server has no page
      const std::vector<Words> examples = ExamplesOf(help);
      EXPECT_THAT(examples, Not(IsEmpty())) << command[0];
      for (const Words& example : examples) Check(example, check);
    };
    walk(walk, {});
  }

 private:
  void Check(Words example, const std::function<void(Words)>& check) {
    SCOPED_TRACE(fmt::format("nerfctl {}", fmt::join(example, " ")));
    const bool has_video = std::find(example.begin(), example.end(), "--video") != example.end();
    if (has_video && !FindProgram("ffmpeg").ok()) return;
    // Its server is elsewhere.
    if (example[0] == "login") example = {"login", "--token-file", "token"};
    if (std::erase(example, "--server") > 0) std::erase(example, "127.0.0.1:50051");
    std::erase(example, "--json");
    ASSERT_EQ(Run({"login", "--name", "lab", "--token-file", "token"}).exit_code, kOk);
    state_.watch_scripts.clear();
    ScriptSuccess();
    check(std::move(example));
    ++n_examples_;
  }

  const fs::path before_;
  const ScopedEnvironment home_{"HOME", dir_.path()};
  const ScopedEnvironment config_{"XDG_CONFIG_HOME", dir_.path()};
  // Poses photographs, and exports.
  const ScopedEnvironment engine_{"NERFCTL_ENGINE", FakeEngine(dir_, R"(
      if [ "$1" = export ]; then echo viewer >"$4"; else cp -r photos "$4"; fi
      )")};

 protected:
  int n_examples_ = 0;
};

// The words after `nerfctl` of each command that the output suggests: behind "next:", and in
// backquotes.
std::vector<Words> SuggestionsIn(const std::string& output) {
  static const std::regex suggestion("next: nerfctl ([^(\n]*)|`nerfctl ([^`]*)`");
  std::vector<Words> suggestions;
  for (std::sregex_iterator it(output.begin(), output.end(), suggestion), end; it != end; ++it) {
    std::string line = it->str(1) + it->str(2);
    line.resize(line.find_last_not_of(' ') + 1);
    suggestions.push_back(WordsOf(line));
  }
  return suggestions;
}

// A command, and what the commands that it suggests begin with.
struct Hint {
  Words command;
  Words suggested;
};

class SuggestionsTest : public CommandTableTest {
 protected:
  SuggestionsTest() {
    fs::create_directory(dir_ / "few photos");
    std::ofstream(dir_ / "few photos/1.jpg") << "a photograph";
  }

  // Runs the command and what it suggests; each suggestion must end with 0.
  void Check(const Hint& hint) {
    SCOPED_TRACE(fmt::format("nerfctl {}", fmt::join(hint.command, " ")));
    const CommandResult result = Run(hint.command);
    Words begun;
    for (const Words& words : SuggestionsIn(result.out + result.err)) {
      begun.push_back(fmt::format("{}", fmt::join(words, " ")));
      state_.errors.clear();
      state_.watch_scripts.clear();
      ScriptSuccess();
      const CommandResult next = Run(words);
      EXPECT_EQ(next.exit_code, kOk) << begun.back() << "\n" << next.err;
      ran_.insert(begun.back());
    }
    ASSERT_EQ(begun.size(), hint.suggested.size()) << result.out << result.err;
    for (size_t i = 0; i < begun.size(); ++i) EXPECT_EQ(begun[i], hint.suggested[i]);
    state_.watch_scripts.clear();
  }
  void CheckAfter(const std::string& method, const absl::Status& error, const Hint& hint) {
    state_.errors[method] = {error};
    Check(hint);
  }
  static absl::Status NoSuch(const std::string& name) {
    return WithReason(absl::NotFoundError(name + " not found"), reason::kResourceNotFound,
                      {{"resource", name}});
  }

  std::set<std::string> ran_;
};

TEST_F(CommandTableTest, ProgressInJsonMakesEveryLineJson) {
  ForEachExample([this](Words words) {
    const bool is_listing = std::find(words.begin(), words.end(), "ls") != words.end();
    const bool is_doctor = words[0] == "doctor";
    words.insert(words.end(), {"--progress", "json"});
    const CommandResult result = Run(words);
    EXPECT_TRUE(result.exit_code == kOk || is_doctor) << result.err;
    EXPECT_TRUE(!result.out.empty() || is_listing);
    for (const std::string& line : LinesOf(result.out + result.err)) {
      const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      EXPECT_TRUE(json.is_object()) << line;
    }
  });
  EXPECT_GE(n_examples_, 50) << "examples that the help did not show";
}

TEST_F(CommandTableTest, OutputInJsonIsOneValue) {
  ForEachExample([this](Words words) {
    words.emplace_back("--json");
    const CommandResult result = Run(words);
    const auto json = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(json.is_discarded()) << result.out << result.err;
    EXPECT_FALSE(json.is_object() && json.empty()) << "nothing to read";
  });
}

TEST_F(CommandTableTest, WatchInJsonPrintsItsEventsOnlyWhereTheyAreAskedFor) {
  ScriptSuccess();
  const Words watch = {"job", "watch", "j-fake", "--progress", "json"};
  const CommandResult last = Run(watch);
  ASSERT_THAT(LinesOf(last.out), SizeIs(1));
  EXPECT_EQ(nlohmann::json::parse(last.out)["trainingStatus"]["finalPsnr"], 33.125);
  ScriptSuccess();
  Words with_events = watch;
  with_events.insert(with_events.end(), {"--output", "jsonl"});
  EXPECT_THAT(LinesOf(Run(with_events).out), SizeIs(3));
}

TEST_F(SuggestionsTest, SuggestedCommandsRun) {
  Check({{"scene", "check", "photos"}, {"train photos"}});
  Check({{"scene", "check", "few photos"}, {"train few photos"}});
  Check({{"scene", "create", "photos"}, {"job create s-fake --watch"}});
  Check({{"job", "create", "mic"}, {"job watch j-fake"}});
  for (const char* verb : {"pause", "resume", "cancel"}) {
    Check({{"job", verb, "j-7f3k2c81"}, {"job show j-7f3k2c81"}});
  }
  Check({{"model", "promote", "j-1", "--id", "mic"}, {"render mic --out mic-views"}});
  Check({{"pose", "garden"}, {"job create s-fake --watch"}});
  Check({{"pose", "garden", "--detach"}, {"job watch p-fake"}});
  Check({{"job", "render", "mic"}, {"job fetch r-fake --out movie.mp4"}});
  Check({{"job", "render", "mic", "--no-movie"}, {"job fetch r-fake --out frames"}});
  ScriptSuccess();
  Check({{"job", "watch", "j-fake"}, {"render --job j-fake --out j-fake-views"}});
  state_.watch_scripts = {{{Message(W::STATE_CHANGED, 1, J::CANCELLED)}, absl::OkStatus()}};
  Check({{"job", "watch", "j-fake"}, {"job retry j-fake --watch"}});
  W low = Message(W::STATE_CHANGED, 2, J::SUCCEEDED, 100);
  low.mutable_job()->mutable_training()->set_scene("projects/default/scenes/s-1");
  low.mutable_job()->mutable_training_status()->set_final_psnr(15);
  low.mutable_job()->mutable_training_status()->mutable_progress()->set_samples(1e6);
  state_.watch_scripts = {{{low}, absl::OkStatus()}};
  Check(
      {{"job", "watch", "j-fake"}, {"scene check s-1", "render --job j-fake --out j-fake-views"}});
  state_.watch_scripts = {{{Message(W::SNAPSHOT, 1, J::QUEUED)}, absl::OkStatus(), true}};
  Check(
      {{"job", "watch", "j-fake", "--timeout", "0.3s"}, {"job watch j-fake", "job cancel j-fake"}});
  state_.pose_job.set_state(v1::Job::RUNNING);
  const CommandResult posing = Run({"pose", "garden", "--timeout", "0.3s"});
  state_.pose_job.set_state(v1::Job::SUCCEEDED);
  for (const Words& words : SuggestionsIn(posing.err)) {
    EXPECT_EQ(Run(words).exit_code, kOk);
    ran_.insert(fmt::format("{}", fmt::join(words, " ")));
  }
  EXPECT_THAT(ran_, testing::IsSupersetOf(
                        {std::string("job watch p-fake"), std::string("job cancel p-fake")}));
  state_.render_job.set_state(v1::Job::RUNNING);
  const CommandResult waited = Run({"job", "render", "mic", "--out", "m.mp4", "--timeout", "0.3s"});
  state_.render_job.set_state(v1::Job::SUCCEEDED);
  for (const Words& words : SuggestionsIn(waited.err)) {
    EXPECT_EQ(Run(words).exit_code, kOk);
    ran_.insert(fmt::format("{}", fmt::join(words, " ")));
  }
  EXPECT_THAT(ran_, testing::IsSupersetOf({std::string("job fetch r-fake --out m.mp4"),
                                           std::string("job cancel r-fake")}));

  CheckAfter("GetScene", NoSuch("projects/default/scenes/x"),
             {{"scene", "show", "x"}, {"scene ls"}});
  state_.errors["GetJob"] = {NoSuch("projects/default/jobs/x")};
  CheckAfter("GetModel", NoSuch("projects/default/models/x"),
             {{"model", "show", "x"}, {"model ls"}});
  CheckAfter("PromoteCheckpoint", NoSuch("projects/default/jobs/x/checkpoints/5"),
             {{"model", "promote", "x/5"}, {"job show x"}});
  CheckAfter("CreateJob",
             WithReason(absl::AlreadyExistsError("taken"), reason::kAlreadyExists,
                        {{"resource", "projects/default/jobs/x"}}),
             {{"job", "create", "mic", "--id", "x"}, {"job ls"}});
  CheckAfter("PauseJob",
             WithReason(absl::FailedPreconditionError("projects/default/jobs/x has ended"),
                        reason::kStateConflict),
             {{"job", "pause", "x"}, {"job show x"}});
  CheckAfter("CreateJob", NoSuch("projects/default/models/j-7f3k2c81"),
             {{"job", "create", "mic", "--init", "j-7f3k2c81"}, {"job watch j-7f3k2c81"}});
  state_.jobs.back().mutable_training_status()->add_checkpoints()->set_name(
      state_.jobs.back().name() + "/checkpoints/600");
  CheckAfter("CreateJob", NoSuch("projects/default/models/j-7f3k2c81"),
             {{"job", "create", "mic", "--init", "j-7f3k2c81"},
              {"model promote j-7f3k2c81 --id j-7f3k2c81"}});
  Check({{"admin", "project", "show", "nope"}, {"admin project ls"}});
  Check({{"context", "use", "nope"}, {"context ls"}});
  state_.jobs.clear();
  state_.scenes.clear();
  fs::create_directory_symlink(dir_ / "photos", dir_ / "DIR");
  for (const char* noun : {"scene", "job", "model"}) Check({{noun, "ls"}, {"train DIR"}});

  // Every hint of the sources was run, but for the one that asks for a token.
  static const std::regex hint(
      "(?:(?:SayNext|PrintQueued|return fmt::format)\\([^;]*?\"|`)nerfctl ([a-z][a-z-]*(?: "
      "[a-z][a-z-]*)?)[^a-z-]");
  size_t n_hints = 0;
  for (const auto& file : fs::recursive_directory_iterator(SourceDir() + "/client")) {
    if (!file.is_regular_file()) continue;
    const std::string text = ReadFile(file.path(), 1 << 20).value();
    for (std::sregex_iterator it(text.begin(), text.end(), hint), end; it != end; ++it) {
      const std::string words = it->str(1);
      ++n_hints;
      if (words == "login") continue;
      EXPECT_TRUE(std::any_of(ran_.begin(), ran_.end(),
                              [&](const std::string& line) { return line.starts_with(words); }))
          << file.path() << ": nothing ran `nerfctl " << words << "`";
    }
  }
  EXPECT_GE(n_hints, 15u) << "hints that were not found";
}

// An orbit would show the backs of a capture's walls.
TEST_F(CommandTableTest, RenderJobsTakeAPathThatSuits) {
  EXPECT_THAT(Run({"job", "render", "--help"}).out, testing::HasSubstr("--path TEXT=auto"));
}

TEST_F(CommandTableTest, MoviesAndPicturesOfARenderJobNeedAFolder) {
  CommandResult refused = Run({"job", "render", "mic", "--images", "--out", "m.mp4"});
  EXPECT_EQ(refused.exit_code, kUsage);
  EXPECT_THAT(refused.err, testing::HasSubstr("--out: m.mp4 is a file's name, and the job makes "
                                              "several files: name a folder"));
  EXPECT_EQ(state_.calls.count("CreateJob"), 0u);
  state_.render_job.mutable_render()->set_images(true);
  *state_.render_job.mutable_render_status()->add_frames()->add_images() = BlobOfBytes("a movie");
  refused = Run({"job", "fetch", "r-1", "--out", "m.mp4"});
  EXPECT_EQ(refused.exit_code, kUsage);
  EXPECT_FALSE(fs::exists("m.mp4"));
  EXPECT_EQ(Run({"job", "fetch", "r-1", "--out", "f"}).exit_code, kOk);
  EXPECT_TRUE(fs::exists("f/frame_00000_RGB.png"));
  dir_.Write("file", "mine");
  refused = Run({"job", "fetch", "r-1", "--out", "file"});
  EXPECT_EQ(refused.exit_code, kUsage);
  EXPECT_THAT(refused.err, testing::HasSubstr("--out: file is a file; name a folder"));
}

TEST_F(CommandTableTest, QueuedRenderJobSaysWhatItWaitsFor) {
  state_.render_job.set_state(v1::Job::QUEUED);
  state_.render_job.mutable_wait()->set_message("the worker is busy");
  const CommandResult result = Run({"job", "fetch", "r-1", "--out", "f", "--timeout", "0.3s"});
  EXPECT_THAT(result.err, testing::HasSubstr("QUEUED, waits: the worker is busy"));
}

TEST_F(CommandTableTest, FilesAreNamedInJson) {
  const auto files_of = [this](const Words& words) {
    const CommandResult result = Run(words);
    return nlohmann::json::parse(result.out, nullptr, false).value("files", Words());
  };
  EXPECT_THAT(files_of({"job", "fetch", "r-1", "--out", "m.mp4", "--progress", "json"}),
              Contains("m.mp4"));
  EXPECT_THAT(files_of({"job", "render", "mic", "--out", "folder", "--json"}),
              Contains("folder/movie.mp4"));
  EXPECT_THAT(files_of({"model", "download", "mic", "--out", "m", "--json"}), Contains("m"));
  const CommandResult removed = Run({"scene", "rm", "a", "b", "--json"});
  EXPECT_EQ(nlohmann::json::parse(removed.out)[1]["name"], "projects/default/scenes/b");
}

}  // namespace
}  // namespace nerf
