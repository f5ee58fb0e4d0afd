#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace nerf {

class Session;

// What the parsed command line asks for. Returns the exit code.
using Command = std::function<int(Session&)>;

// Each adds its nouns and verbs to `app`. A verb that was parsed stores what it does in *selected.
void AddSceneCommands(CLI::App& app, Command* selected);
void AddJobCommands(CLI::App& app, Command* selected);
void AddModelCommands(CLI::App& app, Command* selected);
void AddWorkerCommands(CLI::App& app, Command* selected);
void AddRenderCommand(CLI::App& app, Command* selected);
void AddTrainCommand(CLI::App& app, Command* selected);
void AddDoctorCommand(CLI::App& app, Command* selected);
void AddVersionCommand(CLI::App& app, Command* selected);

}  // namespace nerf
