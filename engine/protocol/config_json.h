#pragma once

#include "engine/protocol/json.h"
#include "engine/protocol/key_reader.h"
#include "engine/protocol/messages.h"

namespace nerf::protocol {

// The keys of a Config, which stand in a message ("train") or in an object of it ("started").
// Unset ones are left out.
void SetConfig(const Config& config, JsonObject* object);
Config ReadConfig(KeyReader* reader);

}  // namespace nerf::protocol
