// Command lines that fail before they reach a server, with their exit codes and messages. Each runs
// in process and again with the binary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/process/exit_code.h"
#include "nlohmann/json.hpp"
#include "tests/client/run_command.h"
#include "tests/testing/paths.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Case {
  std::vector<std::string> args;
  int exit_code;
  std::string words;  // in standard error
};

std::vector<std::string> Render(std::vector<std::string> more) {
  std::vector<std::string> args = {"render", "--out", "/nonexistent/out"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

constexpr char kUuidVersion1[] = "6f1c2a34-8a1b-1c5d-9e0f-123456789abc";

constexpr char kJsonError[] = R"({"event":"error","code":"INVALID_ARGUMENT","message":)";
// Names the flag, too.
constexpr char kJsonFlagError[] = R"("violations":[{"field":"--server","description":)";

// Command lines that are refused.
const Case kHostileCases[] = {
    {{}, kUsage, "a command is missing; there are\n  train "},
    {{"frobnicate"}, kUsage, "no such command: 'frobnicate'"},
    {{"trian", "x", "--steps", "5"}, kUsage, "no such command: 'trian'; did you mean train?"},
    {{"job", "lst"}, kUsage, "no such command: 'lst'; did you mean ls?"},
    {{"train", "x", "--stpes", "5"}, kUsage, "no such flag: '--stpes'; did you mean --steps?"},
    {{"train", "x", "--stpes=5"}, kUsage, "; did you mean --steps?"},
    {{"job", "ls", "--sever", "x:1"}, kUsage, "; did you mean --server?"},
    {{"open", "--server", "127.0.0.1:1"}, kNotFound, "no nerfd of yours serves 127.0.0.1:1"},
    {{"open", "--server", "nerf.example.com:443"}, kNotFound, "where its operator says"},
    {{"scene"}, kUsage, "a command is missing; there are\n  create "},
    {{"job", "get", "j-1"}, kUsage, "no such command: 'get'; did you mean show?"},
    {{"render", "mic", "--size", "200"}, kUsage, "; did you mean --width and --height?"},
    {{"--progress", "json", "job", "get"}, kUsage, kJsonError},
    {{"job", "ls", "--progress=json", "--server", "localhost"}, kUsage, kJsonFlagError},
    {{"scene", "frobnicate"}, kUsage, "`nerfctl scene --help`"},
    {{"job", "ls", "--frob"}, kUsage, "--frob"},
    {{"job", "ls", "extra"}, kUsage, "extra"},
    {{"job", "show"}, kUsage, "job is required"},
    {{"job", "watch", "a", "b"}, kUsage, "'b' is one word too many for nerfctl job watch"},
    {{"\x1b[31mred"}, kUsage, "?[31mred"},
    {{"--server", "http://x:1", "job", "ls"}, kUsage, "is a URL"},
    {{"--server", "localhost", "job", "ls"}, kUsage, "has no port"},
    {{"job", "ls", "--server", ":50051"}, kUsage, "no host name"},
    {{"job", "ls", "--server=x:99999"}, kUsage, "port from 1 to 65535"},
    {{"--project", "../x", "job", "ls"}, kUsage, "--project"},
    {{"--project", "UPPER", "job", "ls"}, kUsage, "--project"},
    {{"-o", "yaml", "job", "ls"}, kUsage, "table, json, jsonl, name"},
    {{"-o", "jsn", "job", "ls"}, kUsage, "; did you mean json?"},
    {{"--progress", "plian", "job", "ls"}, kUsage, "; did you mean plain?"},
    {{"train", "x", "--background", "wite"}, kUsage, "; did you mean white?"},
    {Render({"mic", "--orbit", "2", "--channels", "rgbb"}), kUsage, "; did you mean rgb?"},
    {Render({"mic", "--orbit", "2", "--format", "jpge"}), kUsage, "; did you mean jpeg?"},
    {Render({"mic", "--model", "mic", "--orbit", "2"}), kUsage, "excludes"},
    {Render({"--orbit", "2"}), kUsage, "needs a model, --checkpoint or --job"},
    {{"--json", "-o", "table", "job", "ls"}, kUsage, "excludes"},
    {{"--progress", "loud", "job", "ls"}, kUsage, "auto, bar, plain, json, none"},
    {{"--timeout", "0", "job", "ls"}, kUsage, "--timeout"},
    {{"--timeout=-5s", "job", "ls"}, kUsage, "--timeout"},
    {{"--timeout", "nan", "job", "ls"}, kUsage, "--timeout"},
    {{"--timeout", "inf", "job", "ls"}, kUsage, "--timeout"},
    {{"--timeout", "5parsecs", "job", "ls"}, kUsage, "5parsecs"},
    {{"job", "ls", "--kind", "film"}, kUsage, "--kind"},
    {{"job", "fetch", "r-1", "--out", "/dev/null"}, kUsage, "--out: /dev/null is a file"},
    {{"render-job", "ls"}, kUsage, "no such command: 'render-job'"},
    {{"job", "ls", "--limit", "-1"}, kUsage, "--limit"},
    {{"job", "ls", "--limit", "many"}, kUsage, "--limit"},
    {{"train"}, kUsage, "needs a folder"},
    {{"train", "x", "--steps", "0"}, kUsage, "--steps"},
    {{"train", "x", "--steps", "4294967296"}, kUsage, "--steps"},
    {{"train", "x", "--steps", "1.5"}, kUsage, "--steps"},
    {{"train", "x", "--steps", "1e400"}, kUsage, "--steps"},
    {{"train", "x", "--samples", "nan"}, kUsage, "--samples"},
    {{"train", "x", "--samples", "inf"}, kUsage, "--samples"},
    {{"train", "x", "--seconds=-1"}, kUsage, "--seconds"},
    {{"train", "x", "--steps", "5", "--seconds", "5"}, kUsage, "excludes"},
    {{"train", "x", "--seed", "4294967296"}, kUsage, "--seed"},
    {{"train", "x", "--background", "pink"}, kUsage, "auto, white, black, random"},
    {{"train", "x", "--test-every", "eight"}, kUsage, "--test-every"},
    {{"train", "x", "--set", "nonsense"}, kUsage, "key=value"},
    {{"train", "x", "--set", "lerning_rate=1"}, kUsage, "did you mean learning_rate"},
    {{"train", "x", "--set", "beta1=2"}, kUsage, "between 0 and 0.9999"},
    {{"train", "x", "--set", "loss=mse,loss=mse"}, kUsage, "twice"},
    {{"train", "x", "--init", "../../etc/passwd"}, kUsage, "--init"},
    {{"train", "x", "--request-id", kUuidVersion1}, kUsage, "UUID4"},
    {{"train", "x", "--id", "Bad_Id"}, kUsage, "--id"},
    {{"train", "x", "--display-name", std::string(129, 'x')}, kUsage, "129 bytes"},
    {{"train", "x", "--display-name", "a\x1b[31mb"}, kUsage, "--display-name: must be UTF-8"},
    {{"scene", "create", "x", "--display-name", std::string(129, 'x')}, kUsage, "129 bytes"},
    {{"model", "promote", "j-1", "--display-name", "\xff"}, kUsage, "--display-name"},
    {{"model", "download", "m", "--out", "/nonexistent/m"}, kUsage, "no folder /nonexistent"},
    {{"export", "--model", "m", "--out", "/nonexistent/m.html"}, kUsage, "--out: there is no"},
    {{"export", "--out", "m.html"}, kUsage, "name one of --model and --job"},
    {{"export", "--model", "m", "--job", "j-1", "--out", "m.html"}, kUsage, "--model and --job"},
    {{"export", "--job", "../x", "--out", "m.html"}, kUsage, "../x"},
    {{"export", "--model", "m"}, kUsage, "--out"},
    {{"job", "render", "m", "--out", "/nonexistent/m.mp4"}, kUsage, "--out: there is no"},
    {{"job", "fetch", "r-1", "--out", "/nonexistent/m.mp4"}, kUsage, "--out: there is no"},
    {{"train", "x", "--method", "gaussians"}, kUsage, "--method"},
    {{"train", "x", "--method", "npg"}, kUsage, "; did you mean ngp?"},
    {{"train", "/nonexistent"}, kNotFound, "no such folder"},
    {{"train", "x", "--samples", "1.5"}, kUsage, "--samples: 1.5 is not a budget"},
    {{"scene", "create", "/nonexistent"}, kNotFound, "no such folder"},
    {{"scene", "check", "/nonexistent"}, kNotFound, "no such folder"},
    {{"scene", "check", "/dev/null"}, kUsage, "/dev/null is a file; name the folder"},
    {{"scene", "create", "/etc/passwd"}, kUsage, "that holds the pictures, such as /etc\n"},
    {{"train", "/dev/null"}, kUsage, "`nerfctl train --help`"},
    {{"scene", "check", "x", "--test-every", "-3"}, kUsage, "--test-every"},
    {{"job", "create"}, kUsage, "name of a scene"},
    {{"job", "create", "projects/p/models/m"}, kUsage, "not the name of a scene"},
    {{"job", "create", "s-1", "--watch", "--detach"}, kUsage, "excludes"},
    {{"job", "show", "projects/p/scenes/s"}, kUsage, "not the name of a job"},
    {{"job", "cancel", "j-1/../../x"}, kUsage, "not the name of a job"},
    {{"job", "pause", "projects/p/models/m"}, kUsage, "not the name of a job"},
    {{"job", "retry", "j-1", "--request-id", "7"}, kUsage, "--request-id"},
    {{"job", "extend", "j-1"}, kUsage, "needs a new total: --samples"},
    {{"job", "extend", "j-1", "--samples", "0"}, kUsage, "--samples: '0'"},
    {{"job", "extend", "j-1", "--samples", "1e16"}, kUsage, "--samples"},
    {{"job", "extend", "j-1", "--steps", "5e9"}, kUsage, "--steps"},
    {{"job", "extend", "j-1", "--steps", "5", "--seconds", "5"}, kUsage, "excludes"},
    {{"job", "extend", "projects/p/models/m", "--steps", "5"}, kUsage, "not the name of a job"},
    {{"job", "update", "j-1"}, kUsage, "--label"},
    {{"job", "update", "j-1", "--priority", "high"}, kUsage, "--priority"},
    {{"job", "update", "j-1", "--label", "=blue"}, kUsage, "KEY=VALUE"},
    {{"job", "update", "j-1", "--label", "a b=c"}, kUsage, "the key 'a b' is not of a-z"},
    {{"job", "update", "j-1", "--label", "Team=c"}, kUsage, "the key 'Team' is not of a-z"},
    {{"job", "update", "j-1", "--priority", "101"}, kUsage, "--priority: '101'"},
    {{"job", "update", "j-1", "--crop", "0,0,0,1,1"}, kUsage, "--crop: '0,0,0,1,1'"},
    {{"model", "update", "mic"}, kUsage, "--crop"},
    {{"model", "update", "mic", "--crop", "0,0,0,1,-1,1"}, kUsage, "--crop: size[1]"},
    {{"job", "create", "s-1", "--priority", "-2147483648"}, kUsage, "from -100 to 100"},
    {{"admin", "project", "update", "p", "--max-renders", "few"},
     kUsage,
     "--max-renders: 'few' is not a number"},
    {{"job", "create", "s-1", "--label", "blue"}, kUsage, "KEY=VALUE"},
    {{"model", "promote", "j-1/last"}, kUsage, "not the name of a checkpoint"},
    {{"model", "rm", "good", "BAD"}, kUsage, "'BAD'"},
    {{"render", "--model", "m", "--orbit", "2"}, kUsage, "needs --out or --video"},
    {Render({"--orbit", "2"}), kUsage, "a model, --checkpoint or --job"},
    {Render({"--model", "m", "--job", "j", "--orbit", "2"}), kUsage, "excludes"},
    {Render({"--model", "m", "--path", "spirl"}), kUsage, "; did you mean spiral?"},
    {Render({"--model", "m", "--path", "orbit", "--orbit", "2"}), kUsage, "excludes"},
    {Render({"--model", "m", "--video", "v.mp4", "--channels", "depth"}), kUsage, "--video"},
    {Render({"--model", "m", "--orbit", "0"}), kUsage, "--orbit"},
    {Render({"--model", "m", "--orbit", "2", "--camera", "x"}), kUsage, "excludes"},
    {Render({"--model", "m", "--orbit", "2", "--width", "0"}), kUsage, "--width"},
    {Render({"--model", "m", "--orbit", "2", "--height", "99999"}), kUsage, "--height"},
    {Render({"--model", "m", "--orbit", "2", "--channels", "rgb,alpha"}), kUsage, "'alpha'"},
    {Render({"--model", "m", "--orbit", "2", "--channels", "rgb,rgb"}), kUsage, "twice"},
    {Render({"--model", "m", "--orbit", "2", "--channels", "rgb,"}), kUsage, "--channels"},
    {Render({"mic", "--channels", "rgb,rgba"}), kUsage, "in place of rgb"},
    {Render({"mic", "--channels", "rgba", "--format", "jpeg"}), kUsage, "--format: rgba has alpha"},
    {Render({"mic", "--channels", "rgbaz"}), kUsage, "--channels: rgbaz needs --format exr"},
    {Render({"mic", "--channels", "rgbaz,rgb", "--format", "exr"}), kUsage, "in place of rgb and"},
    {{"job", "render", "mic", "--channels", "rgbaz", "--no-movie"}, kUsage, "--channels"},
    {Render({"mic", "--channels", "rgba", "--video", "v.mp4"}), kUsage, ".webm or .mov"},
    {Render({"mic", "--crop", "nan,0,0,1,1,1"}), kUsage, "--crop: center[0]"},
    {Render({"mic", "--crop", "0,0,0,1,1,1,0,0,0,3"}), kUsage, "--crop: turn"},
    {Render({"mic", "--background", "red"}), kUsage, "--background: 'red'"},
    {Render({"mic", "--stereo", "top-bottom", "--eye-distance", "1"}), kUsage, "--panorama"},
    {Render({"mic", "--panorama", "--width", "30", "--height", "20"}), kUsage, "twice as wide"},
    {{"job", "render", "mic", "--crop", "0,0,0,0,1,1"}, kUsage, "--crop: size[0]"},
    {{"job", "render", "mic", "--channels", "rgba", "--out", "/tmp/m.mp4"}, kUsage, ".webm"},
    {{"job", "render", "mic", "--format", "exr"}, kUsage, "--no-movie"},
    {{"job", "render", "mic", "--format", "jpeg"}, kUsage, "--format"},
    {Render({"--model", "m", "--orbit", "2", "--format", "gif"}), kUsage, "png, jpeg"},
    {Render({"--model", "m", "--orbit", "2", "--format", "jpeg", "--channels", "depth"}), kUsage,
     "16 bits"},
    {Render({"--checkpoint", "j-1", "--orbit", "2"}), kUsage, "JOB/STEP"},
    {Render({"--model", "m", "--camera", "/nonexistent.json"}), kNotFound, "/nonexistent.json"},
    {{"render", "--model", "m", "--orbit", "1", "--out", "/dev/null/x"}, kUsage, "--out"},
};

TEST(CommandLineTest, HostileCommandLinesEndWithTheirCodeAndWords) {
  for (const Case& c : kHostileCases) {
    std::string line;
    for (const std::string& arg : c.args) line += arg + " ";
    SCOPED_TRACE(line);
    for (const CommandResult& result : {RunCommand(c.args), RunBinary(c.args)}) {
      EXPECT_EQ(result.exit_code, c.exit_code);
      EXPECT_THAT(result.err, HasSubstr(c.words));
      EXPECT_THAT(result.err, Not(HasSubstr("\x1b")));
      EXPECT_THAT(result.out, IsEmpty());
    }
  }
}

TEST(CommandLineTest, AllWrongFlagsAreNamedAtOnce) {
  struct Several {
    std::vector<std::string> args, flags;
  };
  const Several cases[] = {
      {{"train", "--steps", "0", "--seed", "x", "--end-by", "soon", "--start-by", "soon", "--show"},
       {"--steps: ", "--seed: ", "--end-by: ", "--start-by: ", "--show: ", "train needs a folder"}},
      {{"job", "create", "BAD", "--priority", "high", "--preview", "/tmp"},
       {"'BAD' is not the name", "--priority: ", "--preview: "}},
      {{"job", "update", "j-1", "--priority", "high", "--label", "=x", "--end-by", "soon"},
       {"--priority: ", "--label: ", "--end-by: "}},
      {{"render", "BAD", "--channels", "rgbb", "--format", "gif", "--path", "spirl"},
       {"'BAD' is not", "--channels: ", "--format: ", "--path: ", "render needs --out or --video"}},
      {{"job", "render", "BAD", "--channels", "x", "--path", "spirl"},
       {"'BAD' is not", "--channels: ", "--path: "}},
      {{"scene", "create", "x", "--id", "Bad_Id", "--request-id", "7"},
       {"--id: ", "--request-id: "}},
      {{"admin", "project", "update", "p", "--model-age", "x", "--ended-job-age", "y"},
       {"--model-age: ", "--ended-job-age: "}},
      {{"job", "ls", "-o", "yaml", "--progress", "loud", "--timeout", "0", "--server", "localhost"},
       {"--output: ", "--progress: ", "--timeout: ", "--server: "}}};
  for (const Several& c : cases) {
    const CommandResult result = RunCommand(c.args);
    EXPECT_EQ(result.exit_code, kUsage);
    for (const std::string& flag : c.flags) EXPECT_THAT(result.err, HasSubstr("nerfctl: " + flag));
    EXPECT_THAT(result.err, HasSubstr("  run `nerfctl " + c.args[0]));
  }
}

TEST(CommandLineTest, BrokenCameraFileIsBadData) {
  const TempDir dir;
  std::ofstream(dir / "camera.json") << R"({"frames": [{"transform_matrix": [[1]]}]})";
  const CommandResult result =
      RunCommand({"render", "--model", "m", "--camera", dir / "camera.json", "--out", dir / "out"});
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.err, HasSubstr("transform_matrix"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out")) << "nothing may stay behind";
}

TEST(CommandLineTest, NobodyAtTheAddressIsUnreachableWithARemedy) {
  const CommandResult result = RunCommand({"--server", "127.0.0.1:1", "job", "ls"});
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(result.err, HasSubstr("start a server with `nerfd`"));
  EXPECT_THAT(result.out, IsEmpty());
}

TEST(CommandLineTest, HelpAndVersionGoToStandardOutput) {
  CommandResult result = RunCommand({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("Subcommands:"));
  EXPECT_THAT(result.err, IsEmpty());
  result = RunCommand({"job", "watch", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("Follow a job"));
  EXPECT_EQ(RunCommand({"version"}).out, "nerfctl " NERF_VERSION "\n");
  EXPECT_EQ(RunCommand({"--version"}).out, "nerfctl " NERF_VERSION "\n");
  EXPECT_EQ(nlohmann::json::parse(RunCommand({"version", "--json"}).out)["version"], NERF_VERSION);
}

TEST(CommandLineTest, EveryHelpShowsExamplesOfItsOwnCommand) {
  for (const std::string command : {"admin",
                                    "admin project",
                                    "admin project ls",
                                    "admin project show",
                                    "admin project update",
                                    "admin drain",
                                    "admin undrain",
                                    "backup",
                                    "job pause",
                                    "job resume",
                                    "job retry",
                                    "job extend",
                                    "job update",
                                    "",
                                    "train",
                                    "scene",
                                    "scene create",
                                    "scene check",
                                    "scene ls",
                                    "scene show",
                                    "scene rm",
                                    "job",
                                    "job create",
                                    "job ls",
                                    "job show",
                                    "job watch",
                                    "job cancel",
                                    "job rm",
                                    "job render",
                                    "job fetch",
                                    "model",
                                    "model ls",
                                    "model show",
                                    "model download",
                                    "model rm",
                                    "model promote",
                                    "render",
                                    "export",
                                    "worker",
                                    "worker ls",
                                    "open",
                                    "doctor",
                                    "version"}) {
    SCOPED_TRACE(command);
    std::vector<std::string> args;
    std::istringstream words(command);
    for (std::string word; words >> word;) args.push_back(word);
    args.push_back("--help");
    const CommandResult result = RunCommand(args);
    EXPECT_EQ(result.exit_code, 0);
    const size_t examples = result.out.find("\nExample");
    ASSERT_NE(examples, std::string::npos);
    EXPECT_THAT(result.out.substr(examples),
                HasSubstr("\n  nerfctl " + (command.empty() ? "train" : command)));
  }
}

TEST(CommandLineTest, HelpOfSettingsNeedsNoFolder) {
  const CommandResult result = RunCommand({"train", "--help-settings", "-o", "json"});
  EXPECT_EQ(result.exit_code, 0);
  const auto table = nlohmann::json::parse(result.out);
  EXPECT_GT(table.size(), 10u);
  EXPECT_TRUE(table[0].contains("default"));
}

TEST(CommandLineTest, EnvironmentGivesFlagsAndTheCommandLineComesFirst) {
  const ScopedEnvironment output("NERFCTL_OUTPUT", "json");
  EXPECT_EQ(nlohmann::json::parse(RunCommand({"version"}).out)["version"], NERF_VERSION);
  EXPECT_EQ(RunCommand({"version", "-o", "table"}).out, "nerfctl " NERF_VERSION "\n");
}

TEST(CommandLineTest, FlagOverridesAVariableThatItExcludes) {
  const ScopedEnvironment output("NERFCTL_JSON", "true");
  EXPECT_EQ(RunCommand({"version", "-o", "table"}).out, "nerfctl " NERF_VERSION "\n");
}

TEST(CommandLineTest, BadVariableOfAnotherCommandDoesNotMatter) {
  const ScopedEnvironment limit("NERFCTL_LIMIT", "many");
  EXPECT_EQ(RunCommand({"version"}).exit_code, 0);
  const CommandResult result = RunCommand({"job", "ls"});
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.err, HasSubstr("--limit"));
}

TEST(CommandLineTest, ValueOfAFlagThatLooksLikeANounIsNoNoun) {
  const ScopedEnvironment limit("NERFCTL_LIMIT", "many");
  EXPECT_EQ(RunCommand({"--project", "train", "job", "ls"}).exit_code, kUsage);
}

TEST(CommandLineTest, CheckOfAFolderPrintsTheReport) {
  CommandResult result = RunCommand({"scene", "check", SourceDir() + "/examples/mic"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("100 train, 25 test"));
  EXPECT_THAT(result.err, HasSubstr("next: nerfctl train"));
  result = RunCommand({"scene", "check", SourceDir() + "/examples/mic", "--json"});
  EXPECT_EQ(nlohmann::json::parse(result.out)["ok"], true);
  const TempDir dir;
  result = RunCommand({"scene", "check", dir.path()});
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.out, HasSubstr("error  "));
}

TEST(CommandLineTest, FullStandardOutputIsAnError) {
  const std::string line = "exec '" + BinDir() + "/nerfctl' train --help-settings > /dev/full 2>&1";
  const int status = std::system(("bash -c \"" + line + "\"").c_str());
  EXPECT_EQ(WEXITSTATUS(status), kBug);
}

}  // namespace
}  // namespace nerf
