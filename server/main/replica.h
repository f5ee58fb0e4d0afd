#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "server/main/data_dir.h"
#include "server/main/end_signals.h"
#include "server/main/server_parts.h"

namespace nerf {

// Listens where this replica will serve; connections wait in the kernel. Errors: those of the
// listeners.
absl::Status StartRelays(const ServerFlags& flags, Server* server);

// Follows the replica that leads: passes connections on to it, and takes its place when its lease
// is over. nullopt: this process leads, with the stores open, and the relays hold connections back
// until it serves. Otherwise the signal to end that came; the relays go on. Errors: those of
// OpenServerStores, except that another replica was faster or PostgreSQL is away.
//
// A leader that was replaced starts its own program anew, in this process, as a follower: nothing
// of its queue, its connections or its threads can outlive its term.
absl::StatusOr<std::optional<int>> FollowUntilLeader(const ServerFlags& flags, char** argv,
                                                     const DataDir& data, EndSignals& signals,
                                                     Server* server);

// The process is about to end: a lost lease starts nothing anew from now on.
void NoteEnding();

// Lets another replica lead at once; for the end of a leader.
void HandOver(Server* server);

}  // namespace nerf
