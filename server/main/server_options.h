#pragma once

#include "server/main/server_flags.h"

namespace CLI {
class App;
}

namespace nerf {

// The flags and variables of nerfd; parsing fills `flags`, which outlives the app.
void AddServerOptions(CLI::App& app, ServerFlags* flags);

}  // namespace nerf
