// An engine that starts only with a CUDA device: says hello once libcuda.so.1 has found one, and
// ends as nerf-engine does with exit code 2 otherwise. NERF_TEST_NEEDS names a file that it has to
// read, too.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kWorkerFd = 3, kUsage = 2;
constexpr char kHello[] =
    "{\"type\":\"hello\",\"version\":\"1\",\"device\":\"cuda:0\",\"description\":\"a stand-in\","
    "\"threads\":1,\"methods\":[\"ngp\"]}\n";

int Fail(const char* why) {
  std::fprintf(stderr, "device_engine: %s\n", why);
  return kUsage;
}

}  // namespace

int main() {
  const char* const needed = std::getenv("NERF_TEST_NEEDS");
  if (needed != nullptr && open(needed, O_RDONLY | O_CLOEXEC) < 0) return Fail(needed);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return Fail(dlerror());
  const auto init = reinterpret_cast<int (*)(unsigned int)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int n_devices = 0;
  if (init == nullptr || count == nullptr || init(0) != 0 || count(&n_devices) != 0 ||
      n_devices == 0) {
    return Fail("the driver finds no device");
  }
  if (write(kWorkerFd, kHello, std::strlen(kHello)) < 0) return 1;
  // Until the worker closes its end.
  char bytes[256];
  while (read(kWorkerFd, bytes, sizeof(bytes)) > 0) {
  }
  return 0;
}
