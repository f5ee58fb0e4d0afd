#include "engine/program/console/command.h"

namespace nerf {

void AddAllCommands(CLI::App* app, CommandBody* chosen) {
  app->require_subcommand(1);
  AddTrainCommand(app, chosen);
  AddEvalCommand(app, chosen);
  AddExplainCommand(app, chosen);
  AddRenderCommand(app, chosen);
  AddExportCommand(app, chosen);
  AddInspectCommand(app, chosen);
  AddMergeCommand(app, chosen);
  AddImportCommand(app, chosen);
  AddCheckCommand(app, chosen);
  AddPoseCommand(app, chosen);
  AddBenchCommand(app, chosen);
  AddAblateCommand(app, chosen);
  AddMetaCommand(app, chosen);
  AddDoctorCommand(app, chosen);
  AddServeCommand(app, chosen);
  AddHelpCommand(app, chosen);
  app->footer(
      "Examples:\n"
      "  nerf-engine train examples/mic --seconds 1m --background white --out run\n"
      "  nerf-engine render run/model.safetensors --out run/views\n"
      "  nerf-engine help train");
}

}  // namespace nerf
