// Linked into a nerf-engine, makes it one that a stranger's picture has taken over: from the moment
// at which its room (NERF_TEST_ROOMS names the folder of all) has a file whose name contains
// "hostile", a thread beside the training tries to reach what belongs to others, again and again.
// It writes how often to attempts, and what it got to successes, in the room's folder of jobs.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int kMaxRooms = 256;

std::vector<fs::path> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  auto at = fs::recursive_directory_iterator(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    files.push_back(at->path());
  }
  return files;
}

bool HasHostileFile(const fs::path& room) {
  for (const fs::path& file : FilesBelow(room / "jobs")) {
    if (file.filename().string().find("hostile") != std::string::npos) return true;
  }
  return false;
}

bool Opens(const fs::path& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

// One attempt at everything. Says what it got.
std::string Attack(const fs::path& rooms, const fs::path& own) {
  constexpr int kFchmodat2 = 452, kSetxattrat = 463;
  std::string got;
  const auto note = [&](bool has, const char* what) {
    if (has) got += std::string(what) + "\n";
  };
  const pid_t worker = getppid();
  note(kill(worker, SIGKILL) == 0, "killed the worker");
  for (const fs::path& file : FilesBelow(own / "jobs")) {
    struct stat status {};
    // Its links to the cache's files, which other projects' jobs read.
    if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink < 2) {
      continue;
    }
    note(Opens(file, O_WRONLY), "opened a cached file for writing");
    note(truncate(file.c_str(), 1) == 0, "truncated a cached file");
    note(chmod(file.c_str(), 0600) == 0, "changed a cached file's mode");
    note(syscall(kFchmodat2, AT_FDCWD, file.c_str(), 0600, 0) == 0, "changed a mode by fchmodat2");
    note(syscall(kSetxattrat, AT_FDCWD, file.c_str(), 0, "user.x", nullptr, 0) == 0,
         "set an attribute");
    note(utimensat(AT_FDCWD, file.c_str(), nullptr, 0) == 0, "changed a cached file's times");
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    note(fd >= 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0, "took a lease");
    note(fd >= 0 && fcntl(fd, F_SETOWN, worker) == 0, "sends signals to the worker");
    if (fd >= 0) close(fd);
  }
  for (int room = 0; room < kMaxRooms; ++room) {
    const fs::path other = rooms / std::to_string(room);
    if (other != own) note(Opens(other / "jobs", O_RDONLY | O_DIRECTORY), "looked into a room");
  }
  const fs::path cache = rooms.parent_path();
  note(Opens(cache, O_RDONLY | O_DIRECTORY), "listed the cache");
  note(Opens(cache / "worker_key", O_RDONLY), "read the worker's key");
  note(Opens(cache.parent_path() / "data/admin.token", O_RDONLY), "read the admin's token");
  return got;
}

void Run(const fs::path& rooms) {
  fs::path own;
  for (uint64_t n = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    for (int room = 0; own.empty() && room < kMaxRooms; ++room) {
      const fs::path folder = rooms / std::to_string(room);
      if (HasHostileFile(folder)) own = folder;
    }
    if (own.empty()) continue;
    const std::string got = Attack(rooms, own);
    if (!got.empty()) std::ofstream(own / "jobs/successes", std::ios::app) << got;
    std::ofstream(own / "jobs/attempts") << ++n << "\n";
  }
}

// Before main; the process ends it.
const bool kStarted = [] {
  const char* const rooms = std::getenv("NERF_TEST_ROOMS");
  // Only in a sandbox, where it can do no harm.
  constexpr int kFilter = 2;
  if (rooms != nullptr && prctl(PR_GET_SECCOMP) == kFilter)
    std::thread(Run, fs::path(rooms)).detach();
  return true;
}();

}  // namespace
