#include "common/process/local_server.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/files/places.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxNoteBytes = 4096;

// One spelling for all addresses that reach the same listener on this machine.
std::string Normalized(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (address.starts_with("unix:") || colon == std::string_view::npos) return std::string(address);
  const std::string_view host = address.substr(0, colon);
  if (host == "localhost" || host == "0.0.0.0" || host == "[::1]" || host == "[::]") {
    return absl::StrCat("127.0.0.1", std::string(address.substr(colon)));
  }
  return std::string(address);
}

std::string NotePath(std::string_view address) {
  std::string name = Normalized(address);
  for (char& c : name) {
    if (c == '/') c = '%';
  }
  return absl::StrCat(DefaultStateDir(), "/servers/", name);
}

// Whether a process holds nerfd's lock on the folder.
bool IsLocked(const std::string& data_dir) {
  const UniqueFd lock(open((data_dir + "/nerfd.lock").c_str(), O_RDONLY | O_CLOEXEC));
  if (!lock.ok()) return false;
  if (flock(lock.get(), LOCK_SH | LOCK_NB) == 0) return false;
  return errno == EWOULDBLOCK;
}

bool IsOurs(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && status.st_uid == geteuid();
}

// The value of "grpc" or "web" in nerfd.ports: one line of JSON that nerfd has written.
std::string ServedAddress(const std::string& data_dir, const std::string& protocol) {
  const auto ports = ReadFile(data_dir + "/nerfd.ports", kMaxNoteBytes);
  if (!ports.ok()) return "";
  const std::string key = "\"" + protocol + "\":\"";
  const size_t begin = ports->find(key);
  if (begin == std::string::npos) return "";
  const size_t end = ports->find('"', begin + key.size());
  if (end == std::string::npos) return "";
  return ports->substr(begin + key.size(), end - begin - key.size());
}

}  // namespace

bool IsLoopbackAddress(std::string_view address) {
  if (const size_t comma = address.find(','); comma != std::string_view::npos) {
    return IsLoopbackAddress(address.substr(0, comma)) &&
           IsLoopbackAddress(address.substr(comma + 1));
  }
  if (address.starts_with("unix:")) return true;
  const std::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  // Digits and dots alone: "127.evil.example" is a name like any other.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

absl::Status NoteLocalServer(std::string_view address, const std::string& data_dir) {
  const std::string path = NotePath(address);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return ErrnoToStatus(error.value(), "create the folder of " + path);
  return WriteFileAtomically(path, data_dir + "\n", 0600);
}

void ForgetLocalServer(std::string_view address) { unlink(NotePath(address).c_str()); }

absl::StatusOr<std::string> FindLocalServer(std::string_view address) {
  const absl::Status unknown =
      absl::NotFoundError(absl::StrCat("no nerfd of yours serves ", std::string(address)));
  if (!IsLoopbackAddress(address)) return unknown;
  const std::string path = NotePath(address);
  const auto note = ReadFile(path, kMaxNoteBytes);
  if (!note.ok() || !IsOurs(path)) return unknown;
  std::string data_dir(absl::StripTrailingAsciiWhitespace(*note));
  if (!data_dir.starts_with('/') || !IsOurs(data_dir + "/nerfd.lock") || !IsLocked(data_dir) ||
      Normalized(ServedAddress(data_dir, "grpc")) != Normalized(address)) {
    return unknown;
  }
  return data_dir;
}

std::string FindLocalPage(std::string_view address) {
  const absl::StatusOr<std::string> data_dir = FindLocalServer(address);
  return data_dir.ok() ? ServedAddress(*data_dir, "page") : "";
}

std::string FindSharedPage(std::string_view address) {
  const absl::StatusOr<std::string> data_dir = FindLocalServer(address);
  const std::string shared = data_dir.ok() ? ServedAddress(*data_dir, "shared_page") : "";
  return shared.empty() ? FindLocalPage(address) : shared;
}

}  // namespace nerf
