#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>

#include "client/calls/paging.h"
#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/crop_flag.h"
#include "client/flags/file_flag.h"
#include "client/flags/names.h"
#include "client/flags/new_resource_flags.h"
#include "client/flags/text_format.h"
#include "client/show/resource_printers.h"
#include "common/ids.h"
#include "common/process/exit_code.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "engine/base/config/view_style_check.h"
#include "engine/base/messages/crop_box.h"
#include "fmt/format.h"
#include "nerf/v1/model_service.grpc.pb.h"

namespace nerf {
namespace {

using ModelStub = v1::ModelService::Stub;

struct PromoteFlags : NewResourceFlags {
  std::string checkpoint;
};

int ListModels(Session& session, int limit) {
  return ListResources<v1::ModelService>(session, limit, &ModelStub::ListModels,
                                         &v1::ListModelsResponse::mutable_models, PrintModels,
                                         "nerfctl train DIR");
}

int ShowModel(Session& session, const std::string& text) {
  return ShowResource<v1::ModelService>(session, ResourceKind::kModel, text, &ModelStub::GetModel,
                                        PrintModel);
}

// The file of --out: in a folder, one named after the model.
absl::StatusOr<std::string> DownloadPath(const std::string& out, const std::string& model) {
  std::error_code ignored;
  if (std::filesystem::is_directory(out, ignored)) {
    return (std::filesystem::path(out) / (ShortName(model) + ".safetensors")).string();
  }
  NERF_RETURN_IF_ERROR(CheckFolderOfFile("--out", out));
  return out;
}

int DownloadModel(Session& session, const std::string& text, const std::string& out) {
  const auto name = ExpandName(ResourceKind::kModel, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  const absl::StatusOr<std::string> file = DownloadPath(out, *name);
  if (!file.ok()) return session.FailUsage(file.status());
  const std::string& path = *file;
  const auto model = CallByName<v1::ModelService>(session, *name, &ModelStub::GetModel);
  if (!model.ok()) return session.Fail(model.status());
  const absl::Status status =
      session.Blobs(model->name()).DownloadToFile(model->blob(), path, session.stop());
  if (!status.ok()) return session.Fail(status);
  PrintFiles(session.printer(), model->name(), {path},
             fmt::format("model {} in {}", ShortName(model->name()), path));
  session.SayNext(fmt::format("nerf-engine render {} --out {}-views", ShellWord(PlainText(path)),
                              ShortName(model->name())));
  return kOk;
}

int UpdateModel(Session& session, const std::string& text, const std::string& crop) {
  const auto name = ExpandName(ResourceKind::kModel, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  v1::UpdateModelRequest request;
  request.mutable_model()->set_name(*name);
  request.mutable_update_mask()->add_paths("crop");
  if (crop != kNoCrop) {
    const auto box = ParseOwnBox("--crop", crop);
    if (!box.ok()) return session.FailUsage(box.status());
    *request.mutable_model()->mutable_crop() = ToMessage(*box);
  }
  const auto stub = session.Stub<v1::ModelService>();
  const auto model = session.Call(*stub, &ModelStub::UpdateModel, request);
  if (!model.ok()) return session.Fail(model.status());
  const Printer printer = session.printer();
  if (!PrintJson(printer, *model)) {
    PrintDone(printer, model->name(),
              fmt::format("model {} shows {}", ShortName(model->name()),
                          model->has_crop() ? CropText(model->crop()) : "everything"));
  }
  return kOk;
}

int RemoveModels(Session& session, const std::vector<std::string>& texts) {
  return RemoveResources<v1::ModelService>(session, ResourceKind::kModel, texts,
                                           &ModelStub::DeleteModel);
}

int PromoteCheckpoint(Session& session, PromoteFlags flags) {
  const auto name =
      ExpandCheckpointName(flags.checkpoint, session.flags().project, /*newest_allowed=*/true);
  if (!name.ok()) return session.FailUsage(name.status());
  if (absl::Status status = CompleteNewResourceFlags(&flags, *session.io().random); !status.ok()) {
    return session.FailUsage(status);
  }
  v1::PromoteCheckpointRequest request;
  request.set_name(*name);
  request.set_model_id(flags.id);
  request.set_display_name(flags.display_name);
  request.set_request_id(flags.request_id);
  const auto stub = session.Stub<v1::ModelService>();
  const auto model = session.Call(*stub, &ModelStub::PromoteCheckpoint, request);
  if (!model.ok()) return session.Fail(model.status());
  const Printer printer = session.printer();
  if (!PrintJson(printer, *model)) {
    PrintDone(
        printer, model->name(),
        fmt::format("model {} from {}", ShortName(model->name()), ShortName(model->checkpoint())));
  }
  session.SayNext(fmt::format("nerfctl render {0} --out {0}-views", ShortName(model->name())));
  return kOk;
}

}  // namespace

void AddModelCommands(CLI::App& app, Command* selected) {
  CLI::App* model = app.add_subcommand("model", "Trained models, ready to render");
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
  download->add_option("--out", *path, "File to write, or a folder for MODEL.safetensors")
      ->type_name("FILE")
      ->required();
  download->footer("Example:\n  nerfctl model download mic --out mic.safetensors");
  download->callback(
      [=] { *selected = [=](Session& s) { return DownloadModel(s, *wanted, *path); }; });

  CLI::App* update = model->add_subcommand("update", "Change what is shown of a model");
  auto updated = std::make_shared<std::string>();
  auto crop = std::make_shared<std::string>();
  update->add_option("model", *updated, "Name of the model")->required();
  AddKeptCropFlag(*update, crop.get());
  update->get_option("--crop")->required();
  update->footer("Example:\n  nerfctl model update mic --crop 0,0,0.5,2,2,1");
  update->callback(
      [=] { *selected = [=](Session& s) { return UpdateModel(s, *updated, *crop); }; });

  CLI::App* rm = model->add_subcommand("rm", "Delete models");
  auto removed = std::make_shared<std::vector<std::string>>();
  rm->add_option("model", *removed, "Names of models")->required();
  rm->footer("Example:\n  nerfctl model rm mic");
  rm->callback([=] { *selected = [removed](Session& s) { return RemoveModels(s, *removed); }; });

  CLI::App* promote = model->add_subcommand("promote", "Keep a checkpoint as a model");
  auto flags = std::make_shared<PromoteFlags>();
  promote->add_option("checkpoint", flags->checkpoint, "JOB/STEP, or JOB for its newest checkpoint")
      ->required();
  AddNewResourceFlags(*promote, flags.get());
  promote->footer(
      "Examples:\n"
      "  nerfctl model promote j-7f3k2c81 --id mic\n"
      "  nerfctl model promote j-7f3k2c81/1200");
  promote->callback(
      [=] { *selected = [flags](Session& s) { return PromoteCheckpoint(s, *flags); }; });
}

}  // namespace nerf
