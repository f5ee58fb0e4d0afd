#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace nerf {

class Session;

// A parsed command. Returns the exit code.
using Command = std::function<int(Session&)>;

// Each adds its commands to `app`. Parsing a command stores it in *selected.
void AddSceneCommands(CLI::App& app, Command* selected);
void AddJobCommands(CLI::App& app, Command* selected);
// To the command `job`: cancel, pause, resume, retry, update.
void AddJobLifeCommands(CLI::App& job, Command* selected);
// To the command `job`: render.
void AddJobRender(CLI::App& job, Command* selected);
void AddModelCommands(CLI::App& app, Command* selected);
void AddExportCommand(CLI::App& app, Command* selected);
void AddWorkerCommands(CLI::App& app, Command* selected);
void AddRenderCommand(CLI::App& app, Command* selected);
void AddPoseCommands(CLI::App& app, Command* selected);
// To the command `scene`: add.
void AddSceneAddition(CLI::App& scene, Command* selected);
void AddTrainCommand(CLI::App& app, Command* selected);
void AddAdminCommands(CLI::App& app, Command* selected);
void AddBackupCommand(CLI::App& app, Command* selected);
void AddLoginCommands(CLI::App& app, Command* selected);
void AddTokenCommands(CLI::App& app, Command* selected);
void AddShareCommands(CLI::App& app, Command* selected);
void AddOpenCommand(CLI::App& app, Command* selected);
void AddDoctorCommand(CLI::App& app, Command* selected);
void AddCompletionCommand(CLI::App& app, Command* selected);
void AddHelpCommand(CLI::App& app, Command* selected);
void AddVersionCommand(CLI::App& app, Command* selected);

}  // namespace nerf
