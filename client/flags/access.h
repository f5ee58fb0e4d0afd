#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/flags/global_flags.h"

namespace nerf {

// Fills in server, project, certificates and token of the context that the flags mean: the one
// that --context names, else one for the same --server (the current one, if it is for that server),
// else the current one. Flags that were given win. Errors: InvalidArgument for a context that does
// not exist; those of ReadContexts.
absl::Status ApplyContext(bool server_is_given, GlobalFlags* flags);

// The token to show to flags.server: of --token-file, $NERFCTL_TOKEN, the context, or of this
// user's nerfd on this machine. Empty without any. Errors: InvalidArgument for a file without a
// token, or when the token would cross the network unencrypted without --insecure.
absl::StatusOr<std::string> ResolveToken(const GlobalFlags& flags);

// Where to connect: flags.server, or the socket of this user's nerfd where that serves TLS at this
// address and no --ca says whom to trust.
std::string ConnectTarget(const GlobalFlags& flags);

}  // namespace nerf
