#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>
#include <ostream>

#include "client/calls/job_flags.h"
#include "client/calls/paging.h"
#include "client/calls/resource_calls.h"
#include "client/calls/scene_upload.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/names.h"
#include "client/flags/new_resource_flags.h"
#include "client/flags/text_format.h"
#include "client/show/resource_printers.h"
#include "common/ids.h"
#include "common/process/exit_code.h"
#include "common/shell_word.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/scene/read/check_report.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "fmt/format.h"
#include "nerf/v1/scene_service.grpc.pb.h"

namespace nerf {
namespace {

using SceneStub = v1::SceneService::Stub;

struct CreateFlags : NewResourceFlags {
  std::string dir;
  bool apply_exif = false;
};

int CreateScene(Session& session, CreateFlags flags) {
  if (absl::Status status = CompleteNewResourceFlags(&flags, *session.io().random); !status.ok()) {
    return session.FailUsage(status);
  }
  if (absl::Status status = RequireFolder(SourceAt(flags.dir)); !status.ok()) {
    return FailFolder(session, status);
  }
  session.Say(fmt::format("checking {}", flags.dir));
  const absl::StatusOr<SceneDescription> description = CheckLocalScene(
      session, flags.dir, std::nullopt, "auto", {PoseConvention::kOpenGl, flags.apply_exif});
  if (!description.ok()) return session.Fail(description.status());
  const absl::StatusOr<std::vector<v1::SceneFile>> files =
      ManifestOf(session, flags.dir, *description);
  if (!files.ok()) return session.Fail(files.status());
  if (flags.display_name.empty()) flags.display_name = FolderName(flags.dir);
  const absl::StatusOr<v1::Scene> scene = CreateSceneFromFolder(session,
                                                                {.dir = flags.dir,
                                                                 .display_name = flags.display_name,
                                                                 .id = flags.id,
                                                                 .request_id = flags.request_id},
                                                                *files);
  if (!scene.ok()) return session.Fail(scene.status());
  PrintNewScene(session.printer(), *scene);
  session.SayNext(fmt::format("nerfctl job create {} --watch", ShortName(scene->name())));
  return kOk;
}

// The API's answer for a scene, made from a folder: both forms of `scene check` print the same
// JSON.
v1::ValidateSceneResponse ValidationOf(const SceneDescription& description) {
  v1::ValidateSceneResponse validation;
  validation.set_ok(description.ok());
  const std::string report = CheckReportText(description);
  validation.set_summary(report.substr(0, report.find('\n')));
  for (const Problem& problem : description.problems) {
    v1::SceneProblem& added = *validation.add_problems();
    added.set_file(problem.file);
    added.set_field(problem.field);
    added.set_message(problem.message);
  }
  for (const std::string& warning : description.warnings) validation.add_warnings(warning);
  return validation;
}

int CheckFolder(Session& session, const std::string& dir, std::optional<int> test_every,
                const SceneReading& reading) {
  const Source source = SourceAt(dir);
  if (absl::Status status = RequireFolder(source); !status.ok()) return FailFolder(session, status);
  const SceneDescription description = DescribeScene(dir, LocalSceneOptions(test_every, reading));
  std::ostream& out = *session.io().out;
  if (session.flags().output == OutputFormat::kName) {
    out << dir << '\n';
  } else if (!PrintJson(session.printer(), ValidationOf(description))) {
    out << CheckReportText(description);
  }
  if (!description.ok()) {
    SuggestPosing(session, source);
    return kBadData;
  }
  session.SayNext("nerfctl train " + ShellWord(PlainText(dir)));
  return kOk;
}

int CheckStoredScene(Session& session, const std::string& text) {
  const auto name = ExpandName(ResourceKind::kScene, text, session.flags().project);
  if (!name.ok()) {
    return session.FailUsage(absl::InvalidArgumentError(
        fmt::format("'{}' is neither a folder nor a scene", text.substr(0, 128))));
  }
  v1::ValidateSceneRequest request;
  request.set_name(*name);
  const auto stub = session.Stub<v1::SceneService>();
  const auto validation =
      session.Call(*stub, &SceneStub::ValidateScene, request, session.WorkLimit());
  if (!validation.ok()) return session.Fail(validation.status());
  PrintValidation(session.printer(), *validation);
  return validation->ok() ? kOk : kBadData;
}

// Flags of `scene check`.
struct CheckFlags {
  std::string target, test_every, poses;
  bool apply_exif = false;
};

int CheckScene(Session& session, const CheckFlags& flags) {
  const std::string& target = flags.target;
  const std::string& test_every_text = flags.test_every;
  TrainConfig config;
  if (!flags.poses.empty()) {
    const absl::Status set = SetConfigField("poses", flags.poses, &config);
    if (!set.ok()) {
      return session.FailUsage(
          absl::InvalidArgumentError("--poses: must be opengl, opencv or w2c"));
    }
  }
  const auto test_every = ParseTestEvery(test_every_text);
  if (!test_every.ok()) {
    return session.FailUsage(absl::InvalidArgumentError(
        fmt::format("--test-every: {}", std::string(test_every.status().message()))));
  }
  // A folder wins over an id of the same name.
  std::error_code ignored;
  const bool is_path = std::filesystem::exists(target, ignored) ||
                       (!IsResourceId(target) && target.rfind("projects/", 0) != 0);
  return is_path ? CheckFolder(session, target, *test_every, {config.poses, flags.apply_exif})
                 : CheckStoredScene(session, target);
}

int ListScenes(Session& session, int limit) {
  return ListResources<v1::SceneService>(session, limit, &SceneStub::ListScenes,
                                         &v1::ListScenesResponse::mutable_scenes, PrintScenes,
                                         "nerfctl train DIR");
}

int ShowScene(Session& session, const std::string& text) {
  return ShowResource<v1::SceneService>(session, ResourceKind::kScene, text, &SceneStub::GetScene,
                                        PrintScene);
}

int RemoveScenes(Session& session, const std::vector<std::string>& texts) {
  return RemoveResources<v1::SceneService>(session, ResourceKind::kScene, texts,
                                           &SceneStub::DeleteScene);
}

}  // namespace

void AddSceneCommands(CLI::App& app, Command* selected) {
  CLI::App* scene = app.add_subcommand("scene", "Data sets: photographs with camera poses");
  scene->require_subcommand(1);
  scene->footer("Example:\n  nerfctl scene create examples/mic --id mic");

  CLI::App* create = scene->add_subcommand("create", "Check a folder and upload it");
  auto flags = std::make_shared<CreateFlags>();
  create
      ->add_option("dir", flags->dir,
                   "Folder with transforms.json, a COLMAP model or poses_bounds.npy")
      ->required();
  create->add_flag("--apply-exif", flags->apply_exif,
                   "Turn photographs upright by their EXIF orientation, to check them");
  AddNewResourceFlags(*create, flags.get(), "the folder's");
  create->footer("Example:\n  nerfctl scene create examples/mic --id mic");
  create->callback([=] { *selected = [flags](Session& s) { return CreateScene(s, *flags); }; });

  AddSceneAddition(*scene, selected);

  CLI::App* check =
      scene->add_subcommand("check", "List all problems of a folder, or of a scene on the server");
  auto checked = std::make_shared<CheckFlags>();
  check->add_option("target", checked->target, "Folder, or name of a scene")->required();
  check->add_option("--test-every", checked->test_every, "As in train")->type_name("N");
  AddReadingFlags(*check, &checked->poses, &checked->apply_exif);
  check->footer(
      "Examples:\n"
      "  nerfctl scene check examples/mic\n"
      "  nerfctl scene check mic --json");
  check->callback([=] { *selected = [checked](Session& s) { return CheckScene(s, *checked); }; });

  CLI::App* ls = scene->add_subcommand("ls", "List scenes, newest first");
  auto limit = AddLimitFlag(*ls);
  ls->footer("Example:\n  nerfctl scene ls --limit 0");
  ls->callback([=] { *selected = [limit](Session& s) { return ListScenes(s, *limit); }; });

  CLI::App* show = scene->add_subcommand("show", "Show one scene with its files");
  auto shown = std::make_shared<std::string>();
  show->add_option("scene", *shown, "Name of the scene")->required();
  show->footer("Example:\n  nerfctl scene show mic");
  show->callback([=] { *selected = [shown](Session& s) { return ShowScene(s, *shown); }; });

  CLI::App* rm = scene->add_subcommand("rm", "Delete scenes");
  auto removed = std::make_shared<std::vector<std::string>>();
  rm->add_option("scene", *removed, "Names of scenes")->required();
  rm->footer("Example:\n  nerfctl scene rm mic fox");
  rm->callback([=] { *selected = [removed](Session& s) { return RemoveScenes(s, *removed); }; });
}

}  // namespace nerf
