#pragma once

#include <string>
#include <string_view>

namespace nerf {

// The folder of the running program; empty where it cannot be told.
std::string OwnBinaryDir();
// The path of a program in that folder; `name` alone where the folder is not known.
std::string ProgramBesideThis(std::string_view name);

// Where nerfd keeps its data unless told otherwise: $XDG_DATA_HOME/nerfd, else
// $HOME/.local/share/nerfd, else the latter below /var/tmp. Variables that are no absolute paths do
// not count.
std::string DefaultDataDir();
// The same for a worker's cache: $XDG_CACHE_HOME/nerf-worker, else $HOME/.cache/nerf-worker.
std::string DefaultCacheDir();

}  // namespace nerf
