#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>

#include "client/commands.h"
#include "client/job_flags.h"
#include "client/names.h"
#include "client/paging.h"
#include "client/render_hint.h"
#include "client/resource_printers.h"
#include "client/session.h"
#include "client/text_format.h"
#include "common/exit_code.h"
#include "common/ids.h"
#include "common/shell_word.h"
#include "fmt/format.h"
#include "nerf/v1/model_service.grpc.pb.h"

namespace nerf {
namespace {

using ModelStub = v1::ModelService::Stub;

struct PromoteFlags {
  std::string checkpoint, id, display_name, request_id;
};

int ListModels(Session& session, int limit) {
  const auto stub = session.Stub<v1::ModelService>();
  const auto models =
      ListAll<v1::Model, v1::ListModelsRequest>(session, *stub, &ModelStub::ListModels, limit,
                                                [](auto& page) { return page.mutable_models(); });
  if (!models.ok()) return session.Fail(models.status());
  PrintModels(session.printer(), *models);
  return kOk;
}

int ShowModel(Session& session, const std::string& text) {
  const auto name = ExpandName(ResourceKind::kModel, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  v1::GetModelRequest request;
  request.set_name(*name);
  const auto stub = session.Stub<v1::ModelService>();
  const auto model = session.Call(*stub, &ModelStub::GetModel, request);
  if (!model.ok()) return session.Fail(model.status());
  PrintModel(session.printer(), *model);
  return kOk;
}

int DownloadModel(Session& session, const std::string& text, const std::string& path) {
  const auto name = ExpandName(ResourceKind::kModel, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::is_directory(folder)) {
    return session.FailUsage(
        absl::InvalidArgumentError(fmt::format("--out: there is no folder {}", folder.string())));
  }
  v1::GetModelRequest request;
  request.set_name(*name);
  const auto stub = session.Stub<v1::ModelService>();
  const auto model = session.Call(*stub, &ModelStub::GetModel, request);
  if (!model.ok()) return session.Fail(model.status());
  const absl::Status status = session.Blobs().DownloadToFile(model->blob(), path, session.stop());
  if (!status.ok()) return session.Fail(status);
  PrintDone(session.printer(), path,
            fmt::format("model {} in {}", ShortName(model->name()), PlainText(path)));
  SayNextRender(session, "nerf-engine render " + ShellWord(PlainText(path)));
  return kOk;
}

int RemoveModels(Session& session, const std::vector<std::string>& texts) {
  return RemoveEach(session, ResourceKind::kModel, texts, [&](const std::string& name) {
    v1::DeleteModelRequest request;
    request.set_name(name);
    const auto stub = session.Stub<v1::ModelService>();
    return session.Call(*stub, &ModelStub::DeleteModel, request).status();
  });
}

int PromoteCheckpoint(Session& session, const PromoteFlags& flags) {
  const auto name =
      ExpandCheckpointName(flags.checkpoint, session.flags().project, /*newest_allowed=*/true);
  if (!name.ok()) return session.FailUsage(name.status());
  const auto request_id = RequestIdOrNew(flags.request_id, *session.io().random);
  if (!request_id.ok()) return session.FailUsage(request_id.status());
  if (!flags.id.empty()) {
    if (absl::Status status = CheckResourceId("--id", flags.id); !status.ok()) {
      return session.FailUsage(status);
    }
  }
  const absl::Status display_name = CheckDisplayName("--display-name", flags.display_name);
  if (!display_name.ok()) return session.FailUsage(display_name);
  v1::PromoteCheckpointRequest request;
  request.set_name(*name);
  request.set_model_id(flags.id);
  request.set_display_name(flags.display_name);
  request.set_request_id(*request_id);
  const auto stub = session.Stub<v1::ModelService>();
  const auto model = session.Call(*stub, &ModelStub::PromoteCheckpoint, request);
  if (!model.ok()) return session.Fail(model.status());
  const Printer printer = session.printer();
  if (!PrintJson(printer, *model)) {
    PrintDone(
        printer, model->name(),
        fmt::format("model {} from {}", ShortName(model->name()), ShortName(model->checkpoint())));
  }
  SayNextRender(session, fmt::format("nerfctl render --model {}", ShortName(model->name())));
  return kOk;
}

}  // namespace

void AddModelCommands(CLI::App& app, Command* selected) {
  CLI::App* model = app.add_subcommand("model", "Trained fields, ready to render");
  model->require_subcommand(1);
  model->footer("Example:\n  nerfctl model promote j-7f3k2c81 --id mic");

  CLI::App* ls = model->add_subcommand("ls", "List models, newest first");
  auto limit = AddLimitFlag(*ls);
  ls->footer("Example:\n  nerfctl model ls --json");
  ls->callback([=] { *selected = [limit](Session& s) { return ListModels(s, *limit); }; });

  CLI::App* show = model->add_subcommand("show", "Show one model with its tensors");
  auto shown = std::make_shared<std::string>();
  show->add_option("model", *shown, "Name of the model")->required();
  show->footer("Example:\n  nerfctl model show mic");
  show->callback([=] { *selected = [shown](Session& s) { return ShowModel(s, *shown); }; });

  CLI::App* download = model->add_subcommand("download", "Fetch a model's file, for nerf-engine");
  auto wanted = std::make_shared<std::string>();
  auto path = std::make_shared<std::string>();
  download->add_option("model", *wanted, "Name of the model")->required();
  download->add_option("--out", *path, "File to write")->type_name("FILE")->required();
  download->footer("Example:\n  nerfctl model download mic --out mic.safetensors");
  download->callback(
      [=] { *selected = [=](Session& s) { return DownloadModel(s, *wanted, *path); }; });

  CLI::App* rm = model->add_subcommand("rm", "Delete models");
  auto removed = std::make_shared<std::vector<std::string>>();
  rm->add_option("model", *removed, "Names of models")->required();
  rm->footer("Example:\n  nerfctl model rm mic");
  rm->callback([=] { *selected = [removed](Session& s) { return RemoveModels(s, *removed); }; });

  CLI::App* promote = model->add_subcommand("promote", "Make a model of a checkpoint");
  auto flags = std::make_shared<PromoteFlags>();
  promote->add_option("checkpoint", flags->checkpoint, "JOB/STEP, or JOB for its newest checkpoint")
      ->required();
  promote->add_option("--id", flags->id, "Wanted id (default: the server makes one)")
      ->type_name("ID");
  promote->add_option("--display-name", flags->display_name, "A name for people")
      ->type_name("TEXT");
  promote
      ->add_option("--request-id", flags->request_id,
                   "UUID4 that makes repeating this command safe (default: a new one)")
      ->type_name("UUID");
  promote->footer(
      "Examples:\n"
      "  nerfctl model promote j-7f3k2c81 --id mic\n"
      "  nerfctl model promote j-7f3k2c81/1200");
  promote->callback(
      [=] { *selected = [flags](Session& s) { return PromoteCheckpoint(s, *flags); }; });
}

}  // namespace nerf
