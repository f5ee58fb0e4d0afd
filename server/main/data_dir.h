#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_io.h"
#include "common/ids.h"

namespace nerf {

// The addresses that nerfd serves, for scripts: <data>/nerfd.ports, one JSON object.
struct ServedAddresses {
  std::string grpc;         // host:port
  std::string metrics;      // host:port
  std::string web = {};     // host:port; empty without a web server
  std::string health = {};  // host:port or unix:PATH; empty: none
  std::string page = {};    // https://host:port/ or http://host:port/, of `web` from this machine
  std::string shared_page = {};  // the page's URL for others; empty if no flag names it
};

// nerfd's data folder, locked by one process at a time. The lock ends with the process.
//   <data>/nerfd.lock  admin.token  worker.token  nerfd.ports  queue.db  access.db  blobs/ uploads/
//   worker/
// Movable.
class DataDir {
 public:
  // Locks the folder; makes it (mode 0700) if it is missing, and warns if others may enter it.
  // Errors: FailedPrecondition if another nerfd holds it; those of the system.
  static absl::StatusOr<DataDir> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // The token in a file of the folder, such as admin.token: drawn once, kept with mode 0600.
  absl::StatusOr<std::string> Token(const std::string& file, RandomSource& random);

  absl::Status WriteAddresses(const ServedAddresses& addresses);
  void RemoveAddresses();

 private:
  DataDir(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;
};

}  // namespace nerf
