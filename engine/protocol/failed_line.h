#pragma once

#include "engine/protocol/key_reader.h"
#include "engine/protocol/messages.h"

namespace nerf::protocol {

// The error of a message, or of a line `{"event":"failed",...}`, which commands of nerf-engine
// print with --json.
Error ReadFailed(KeyReader& reader);

}  // namespace nerf::protocol
