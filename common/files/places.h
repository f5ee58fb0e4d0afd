#pragma once

#include <string>
#include <string_view>

namespace nerf {

// The folder of the running program; empty if unknown.
std::string OwnBinaryDir();
// The path of a program in that folder; `name` alone if the folder is unknown.
std::string ProgramBesideThis(std::string_view name);

// Where nerfd keeps its data unless told otherwise: $XDG_DATA_HOME/nerfd, else
// $HOME/.local/share/nerfd, else /var/tmp/.local/share/nerfd. Variables that do not hold an
// absolute path are ignored.
std::string DefaultDataDir();
// The same for a worker's cache: $XDG_CACHE_HOME/nerf-worker, else $HOME/.cache/nerf-worker.
std::string DefaultCacheDir();
// For what one user's programs tell each other: $XDG_STATE_HOME/nerfd, else
// $HOME/.local/state/nerfd.
std::string DefaultStateDir();
// For what a user sets up: $XDG_CONFIG_HOME/nerfd, else $HOME/.config/nerfd.
std::string DefaultConfigDir();

}  // namespace nerf
