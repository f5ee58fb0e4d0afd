// Runs the examples of every command's help as typed, against a scripted server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/child_process.h"
#include "common/exit_code.h"
#include "engine/scene/image_io.h"
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
  CommandTableTest() : before_(fs::current_path()) {
    fs::current_path(dir_.path());
    fs::create_directory_symlink(SourceDir() + "/examples", "examples");
    fs::create_directory_symlink(SourceDir() + "/examples/mic", "photos");
    dir_.Write("token", "t0ken-of-the-test\n");
    dir_.Write("camera_path.json", R"({"render_width": 64, "render_height": 48, "camera_path": [
        {"camera_to_world": [1,0,0,0.5, 0,0,-1,-4, 0,1,0,0.25, 0,0,0,1], "fov": 50}]})");
    ImageU8 view{.width = 64, .height = 48, .n_channels = 3, .pixels = {}};
    view.pixels.assign(size_t{64} * 48 * 3, 200);
    state_.rendered_rgb = EncodePng(view).value();
    state_.validation.set_ok(true);
    AddModel("the model");
    v1::TrainingJob& job = state_.jobs.emplace_back();
    job.set_name("projects/default/trainingJobs/j-7f3k2c81");
    *job.mutable_progress()->mutable_preview_image() = BlobOfBytes(state_.rendered_rgb);
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
  const TempDir dir_;
  const ScopedEnvironment home_{"HOME", dir_.path()};
  const ScopedEnvironment config_{"XDG_CONFIG_HOME", dir_.path()};

 protected:
  int n_examples_ = 0;
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
  EXPECT_EQ(nlohmann::json::parse(last.out)["finalPsnr"], 33.125);
  ScriptSuccess();
  Words with_events = watch;
  with_events.insert(with_events.end(), {"--output", "jsonl"});
  EXPECT_THAT(LinesOf(Run(with_events).out), SizeIs(3));
}

TEST_F(CommandTableTest, FilesAreNamedInJson) {
  const auto files_of = [this](const Words& words) {
    const CommandResult result = Run(words);
    return nlohmann::json::parse(result.out, nullptr, false).value("files", Words());
  };
  EXPECT_THAT(files_of({"render-job", "fetch", "r-1", "--out", "m.mp4", "--progress", "json"}),
              Contains("m.mp4"));
  EXPECT_THAT(files_of({"render-job", "create", "mic", "--out", "folder", "--json"}),
              Contains("folder/movie.mp4"));
  EXPECT_THAT(files_of({"model", "download", "mic", "--out", "m", "--json"}), Contains("m"));
  const CommandResult removed = Run({"scene", "rm", "a", "b", "--json"});
  EXPECT_EQ(nlohmann::json::parse(removed.out)[1]["name"], "projects/default/scenes/b");
}

}  // namespace
}  // namespace nerf
