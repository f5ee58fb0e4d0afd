// Help, completion and man pages: all read the same table of commands.
#include "client/commands/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/process/exit_code.h"
#include "tests/client/service_fixture.h"

namespace nerf {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

// The candidates of __complete; the last element is the line about paths.
std::vector<std::string> Parsed(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  std::vector<std::string> words;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);)
    words.push_back(line.substr(0, line.find('\t')));
  return words;
}

std::vector<std::string> Complete(std::vector<std::string> words) {
  words.insert(words.begin(), {kCompleteWord, "--server", "127.0.0.1:1"});
  return Parsed(RunCommand(words));
}

TEST(CompletionTest, CommandsAndVerbsComeFromTheTable) {
  EXPECT_THAT(Complete({""}),
              IsSupersetOf({"train", "scene", "job", "model", "render", "worker", "open", "doctor",
                            "completion", "help", "version", ":"}));
  EXPECT_THAT(Complete({"job", "w"}), ElementsAre("watch", ":"));
  EXPECT_THAT(Complete({"jo"}), ElementsAre("job", ":"));
  EXPECT_THAT(Complete({""}), Not(Contains("__man")));
  EXPECT_THAT(Complete({"nothing", ""}), ElementsAre(":"));
}

TEST(CompletionTest, FlagsOfTheCommandAndOfEveryCommandAreOffered) {
  EXPECT_THAT(Complete({"train", "--s"}),
              IsSupersetOf({"--steps", "--samples", "--seconds", "--seed", "--set", "--server"}));
  EXPECT_THAT(Complete({"job", "ls", "--lim"}), ElementsAre("--limit", ":"));
  EXPECT_THAT(Complete({"job", "ls", "--nothing"}), ElementsAre(":"));
}

TEST(CompletionTest, ValuesOfFlagsAreOffered) {
  EXPECT_THAT(Complete({"job", "ls", "--output", ""}),
              ElementsAre("table", "json", "jsonl", "name", ":"));
  EXPECT_THAT(Complete({"job", "ls", "--output=j"}),
              ElementsAre("--output=json", "--output=jsonl", ":"));
  EXPECT_THAT(Complete({"train", "x", "--background", "wh"}), ElementsAre("white", ":"));
  EXPECT_THAT(Complete({"train", "x", "--set", "learning"}), ElementsAre("learning_rate=", ":"));
  EXPECT_THAT(Complete({"render", "mic", "--path", ""}),
              ElementsAre("auto", "orbit", "spiral", "flyby", "cameras", ":"));
  EXPECT_THAT(Complete({"job", "render", "--path=s"}), ElementsAre("--path=spiral", ":"));
  EXPECT_THAT(Complete({"train", "x", "--method", "ngp-t"}), ElementsAre("ngp-tiles", ":"));
  EXPECT_THAT(Complete({"job", "ls", "--kind", ""}),
              ElementsAre("training", "render", "pose", "export", ":"));
  EXPECT_THAT(Complete({"render", "mic", "--format", ""}), ElementsAre("png", "jpeg", "exr", ":"));
  EXPECT_THAT(Complete({"export", "--format", "v"}), ElementsAre("viewer", "vdb", "views", ":"));
  EXPECT_THAT(Complete({"export", "--frame=un"}),
              ElementsAre("--frame=unity", "--frame=unreal", ":"));
  EXPECT_THAT(Complete({"--progress", "p"}), ElementsAre("plain", ":"));
  EXPECT_THAT(Complete({"token", "create", "--role", ""}),
              ElementsAre("viewer", "editor", "worker", "admin", ":"));
  EXPECT_THAT(Complete({"completion", ""}), ElementsAre("bash", "zsh", "fish", ":"));
}

TEST(CompletionTest, HelpTakesCommands) {
  EXPECT_THAT(Complete({"help", "ren"}), ElementsAre("render", ":"));
  EXPECT_THAT(Complete({"help", "job", "w"}), ElementsAre("watch", ":"));
  EXPECT_THAT(Complete({"help", "render", ""}), ElementsAre(":"));
}

TEST(CompletionTest, FoldersAndFilesAreLeftToTheShell) {
  EXPECT_THAT(Complete({"train", ""}), ElementsAre(":dirs"));
  EXPECT_THAT(Complete({"render", "--out", ""}), ElementsAre(":dirs"));
  EXPECT_THAT(Complete({"render", "--camera", ""}), ElementsAre(":files"));
  EXPECT_THAT(Complete({"export", "--out", ""}), ElementsAre(":files"));
}

TEST(CompletionTest, AnAddressThatIsNoneCompletesNoNames) {
  EXPECT_THAT(Parsed(RunCommand({kCompleteWord, "--server", "nonsense", "job", "show", ""})),
              ElementsAre(":"));
}

TEST_F(ServiceTest, CompletionOffersTheNamesOnTheServer) {
  state_.jobs.emplace_back().set_name("projects/default/jobs/j-1");
  state_.jobs.emplace_back().set_name("projects/default/jobs/k-2");
  state_.scenes.emplace_back().set_name("projects/default/scenes/mic");
  const auto complete = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {kCompleteWord, "--server", server_.address()});
    return Parsed(RunCommand(words));
  };
  EXPECT_THAT(complete({"job", "watch", ""}), ElementsAre("j-1", "k-2", ":"));
  EXPECT_THAT(complete({"job", "rm", "j-1", "k"}), ElementsAre("k-2", ":"));
  EXPECT_THAT(complete({"scene", "show", ""}), ElementsAre("mic", ":"));
  EXPECT_THAT(complete({"job", "create", "m"}), ElementsAre("mic", ":"));
  EXPECT_EQ(state_.list_jobs.back().filter(), "");
  const std::pair<std::vector<std::string>, std::string> of_one_kind[] = {
      {{"render", "--job", "j"}, "training"},
      {{"job", "render", "--job", "j"}, "training"},
      {{"job", "create", "--pose-job", "j"}, "pose"},
      {{"share", "create", "mic", "--export-job", "j"}, "export"}};
  for (const auto& [words, kind] : of_one_kind) {
    EXPECT_THAT(complete(words), ElementsAre("j-1", ":"));
    EXPECT_EQ(state_.list_jobs.back().filter(), "kind = " + kind);
  }
}

TEST(CompletionTest, EveryShellHasAScriptThatCallsTheHiddenCommand) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const CommandResult result = RunCommand({"completion", shell});
    EXPECT_EQ(result.exit_code, kOk);
    EXPECT_THAT(result.out, HasSubstr(kCompleteWord));
  }
  const CommandResult wrong = RunCommand({"completion", "bsh"});
  EXPECT_EQ(wrong.exit_code, kUsage);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean bash?"));
}

TEST(HelpCommandTest, PrintsWhatTheFlagPrints) {
  EXPECT_EQ(RunCommand({"help"}).out, RunCommand({"--help"}).out);
  EXPECT_EQ(RunCommand({"help", "scene"}).out, RunCommand({"scene", "--help"}).out);
  EXPECT_EQ(RunCommand({"help", "job", "watch"}).out, RunCommand({"job", "watch", "--help"}).out);
  const CommandResult wrong = RunCommand({"help", "job", "wacth"});
  EXPECT_EQ(wrong.exit_code, kUsage);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean watch?"));
}

TEST(ManPageTest, HoldsEveryCommandAndFlag) {
  const CommandResult man = RunCommand({"__man"});
  EXPECT_EQ(man.exit_code, kOk);
  EXPECT_THAT(man.out, AllOf(HasSubstr(".TH nerfctl 1"), HasSubstr(".SS job watch"),
                             HasSubstr("\\-\\-help\\-settings"), HasSubstr(".SS scene create"),
                             Not(HasSubstr("__man"))));
  // A line that begins with a dot must be a command of roff.
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(man.out, '\n'))) {
    if (!line.empty() && line[0] == '.') {
      EXPECT_THAT(line, testing::ContainsRegex("^\\.(TH|SH|SS|TP|PP|B|I|nf|fi)")) << line;
    }
  }
}

TEST(VersionTest, ShortFlagPrintsIt) {
  EXPECT_EQ(RunCommand({"-v"}).out, "nerfctl " NERF_VERSION "\n");
}

}  // namespace
}  // namespace nerf
