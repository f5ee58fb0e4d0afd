// Simulates a hanging disk. Preloaded into nerfd: syncs of queue.db and its log wait while the file
// named by NERF_HOLD_SYNC exists.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void WaitWhileHeld(int fd) {
  const char* const hold = getenv("NERF_HOLD_SYNC");
  if (hold == nullptr) return;
  char link[64], path[4096] = {};
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof(path) - 1) < 0 || strstr(path, "/queue.db") == nullptr) return;
  while (access(hold, F_OK) == 0) usleep(5000);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int fsync(int fd) {
  WaitWhileHeld(fd);
  static auto* const next = Next<int(int)>("fsync");
  return next(fd);
}

extern "C" int fdatasync(int fd) {
  WaitWhileHeld(fd);
  static auto* const next = Next<int(int)>("fdatasync");
  return next(fd);
}
