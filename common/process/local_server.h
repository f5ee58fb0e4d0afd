#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// How programs of one user find the data folder, and so the tokens, of that user's nerfd by its
// address. nerfd leaves a note for each address that it serves:
//   $XDG_STATE_HOME/nerfd/servers/127.0.0.1:50051, else below $HOME/.local/state
// which holds the path of its data folder. A note whose nerfd is gone is not believed.

// Writes the note. "localhost" and the addresses of every interface count as 127.0.0.1.
absl::Status NoteLocalServer(std::string_view address, const std::string& data_dir);
void ForgetLocalServer(std::string_view address);

// The data folder of the nerfd that serves `address` (127.0.0.1:PORT, [::1]:PORT, localhost:PORT or
// unix:PATH) on this machine. The folder has to be this user's, locked by a running nerfd, and
// name the same address in its nerfd.ports. NotFound otherwise.
absl::StatusOr<std::string> FindLocalServer(std::string_view address);

// The URL of that nerfd's page, http://HOST:PORT/ or https; empty if it serves none or is not
// found.
std::string FindLocalPage(std::string_view address);
// The URL at which others reach it, by nerfd's --web-origin; FindLocalPage without one.
std::string FindSharedPage(std::string_view address);

// True for addresses that only this machine serves: 127.0.0.0/8, [::1], localhost, unix:PATH, and
// lists of them.
bool IsLoopbackAddress(std::string_view address);

}  // namespace nerf
