#pragma once

#include "server/main/server_flags.h"

namespace nerf {

// `address` (HOST:PORT, a number each), or, where its port is taken, the same host with the first
// of the next 20 ports that is free. `address` where none is: whoever listens there then says why
// not.
ListenAddress FirstFree(ListenAddress address);

}  // namespace nerf
