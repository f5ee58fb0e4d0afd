// A sandboxed engine finds NVIDIA's driver wherever systems have it. fake_cuda_driver.cc stands in
// for libcuda.so.1, a mount namespace of the test's own has the folders and devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/process/sandbox_support.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/mount_namespace.h"
#include "worker/engine/engine_libraries.h"
#include "worker/engine/engine_sandbox.h"
#include "worker/engine/engine_trial.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kDevices = {"nvidiactl",
                                           "nvidia0",
                                           "nvidia1",
                                           "nvidia-uvm",
                                           "nvidia-uvm-tools",
                                           "nvidia-modeset",
                                           "nvidia-caps/nvidia-cap1",
                                           "dri/renderD128",
                                           "dxg"};

// The system's folder of libraries, such as /usr/lib/x86_64-linux-gnu.
std::string LibraryFolder() { return fs::path(ProgramLoaders().at(0)).parent_path().string(); }

// The driver's libraries in `files`, linked from `folder` under the names that the loader asks for.
void Install(const std::string& files, const std::string& folder) {
  fs::create_directories(files);
  fs::create_directories(folder);
  for (const auto& [built, name] : {std::pair(FAKE_DRIVER, "libcuda.so"),
                                    std::pair(FAKE_PTX_COMPILER, "libnvidia-ptxjitcompiler.so")}) {
    const fs::path file = fs::path(files) / (std::string(name) + ".550.54.15");
    fs::copy_file(built, file);
    fs::create_symlink(file, fs::path(folder) / (std::string(name) + ".1"));
  }
}

// Makes the loader's cache again, with another folder if one is named.
void UpdateLoaderCache(MountNamespace& space, const std::string& folder = "") {
  space.Empty("/var/cache");
  MountNamespace::Write("/etc/all.conf", "include /etc/ld.so.conf\n" + folder + "\n");
  if (std::system("PATH=$PATH:/sbin:/usr/sbin ldconfig -f /etc/all.conf 2>/dev/null") != 0) {
    throw std::runtime_error("ldconfig failed");
  }
}

// Links of Debian's alternatives, and the loader's own folder.
void LikeDebian(MountNamespace& space) {
  space.Overlay(LibraryFolder());
  space.Overlay("/etc");
  const std::string current = LibraryFolder() + "/nvidia/current";
  Install(current, current);
  fs::create_directories("/etc/alternatives");
  for (const char* name : {"libcuda.so.1", "libnvidia-ptxjitcompiler.so.1"}) {
    const std::string alternative = std::string("/etc/alternatives/glx--") + name;
    fs::create_symlink(current + "/" + name, alternative);
    fs::create_symlink(alternative, LibraryFolder() + "/" + name);
  }
  MountNamespace::Write("/etc/nvidia/profile", "1");
}

// One folder for all of the driver, as on GKE.
void LikeCloudImages(MountNamespace& space) {
  space.Empty("/usr/local");
  Install("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib64");
  MountNamespace::Write("/usr/local/nvidia/share/nvidia/profile", "1");
}

// NVIDIA's container toolkit mounts the files of the host one by one and runs ldconfig.
void LikeContainerToolkit(MountNamespace& space) {
  space.Overlay(LibraryFolder());
  space.Overlay("/etc");
  MountNamespace::Bind(FAKE_DRIVER, LibraryFolder() + "/libcuda.so.550.54.15");
  MountNamespace::Bind(FAKE_PTX_COMPILER,
                       LibraryFolder() + "/libnvidia-ptxjitcompiler.so.550.54.15");
  UpdateLoaderCache(space);
  if (!fs::exists(LibraryFolder() + "/libcuda.so.1")) {
    throw std::runtime_error("ldconfig made no links");
  }
}

// A folder that the loader's configuration names, with links to another one.
void ByLoaderCache(MountNamespace& space) {
  space.Empty("/run");
  space.Overlay("/etc");
  Install("/run/driver/550", "/run/driver/lib");
  UpdateLoaderCache(space, "/run/driver/lib");
}

void ByLibraryPath(MountNamespace& space) {
  space.Empty("/run");
  Install("/run/driver/550", "/run/driver/lib");
}

void InOpt(MountNamespace& space) {
  space.Empty("/opt");
  Install("/opt/nvidia/lib", "/opt/nvidia/lib");
  MountNamespace::Write("/opt/nvidia/profile", "1");
}

struct Layout {
  std::string name;
  void (*build)(MountNamespace& space);
  std::string library_path = {};
};
const std::vector<Layout> kLayouts = {
    {"Debian", LikeDebian},
    {"/usr/local/nvidia/lib64", LikeCloudImages, "/usr/local/nvidia/lib64"},
    {"/usr/local/nvidia/lib64 that the loader does not know", LikeCloudImages},
    {"container toolkit", LikeContainerToolkit},
    {"the loader's cache", ByLoaderCache},
    {"LD_LIBRARY_PATH", ByLibraryPath, "/nowhere:/run/driver/lib"},
    {"/opt/nvidia", InOpt, "/opt/nvidia/lib"}};

const Layout& LayoutOf(std::string_view name) {
  return *std::find_if(kLayouts.begin(), kLayouts.end(),
                       [&](const Layout& layout) { return layout.name == name; });
}

EngineProcessOptions DeviceEngine() {
  EngineProcessOptions options{DEVICE_ENGINE, {}};
  options.sandbox.enabled = options.sandbox.gpu = true;
  return options;
}

// Whether an engine under these rules says hello.
bool Starts(const EngineRules& rules) {
  const auto sandbox = EngineSandbox::Build(DeviceEngine().sandbox, rules);
  int ends[2];
  if (!sandbox.ok() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const pid_t engine = fork();
  if (engine == 0) {
    char program[] = DEVICE_ENGINE;
    char* argv[] = {program, nullptr};
    dup2(ends[1], 3);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);  // what it lacks is known
    if (sandbox->Apply()) execve(program, argv, sandbox->environment());
    _exit(1);
  }
  close(ends[1]);
  char byte = 0;
  const bool starts = read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  waitpid(engine, nullptr, 0);
  return starts;
}

EngineRules RulesOfDeviceEngine(bool gpu, const std::string& library_path) {
  EngineProcessOptions options = DeviceEngine();
  options.sandbox.gpu = gpu;
  LoaderPaths paths;
  paths.library_path = library_path;
  return RulesOf(options.sandbox, DEVICE_ENGINE, paths);
}

template <typename Items>
bool Has(const Items& items, const typename Items::value_type& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

// The rules without one of those that a GPU adds, by the name of that.
std::map<std::string, EngineRules> Mutants(const std::string& library_path) {
  const EngineRules rules = RulesOfDeviceEngine(/*gpu=*/true, library_path);
  const EngineRules without_gpu = RulesOfDeviceEngine(/*gpu=*/false, library_path);
  std::map<std::string, EngineRules> mutants;
  for (auto LandlockPaths::*kind :
       {&LandlockPaths::read, &LandlockPaths::write, &LandlockPaths::devices}) {
    for (const std::string& path : rules.paths.*kind) {
      if (Has(without_gpu.paths.*kind, path)) continue;
      EngineRules& mutant = mutants[path] = rules;
      std::erase(mutant.paths.*kind, path);
    }
  }
  for (const int call : rules.calls) {
    if (without_gpu.calls.contains(call)) continue;
    mutants["call " + std::to_string(call)] = rules;
    mutants["call " + std::to_string(call)].calls.erase(call);
  }
  for (size_t i = 0; i < rules.sockets.size(); ++i) {
    EngineRules& mutant = mutants["socket " + std::to_string(rules.sockets[i].domain)] = rules;
    mutant.sockets.erase(mutant.sockets.begin() + static_cast<int>(i));
  }
  return mutants;
}

class EngineDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    if (LandlockVersion() < 1) GTEST_SKIP() << "this kernel has no Landlock";
    const std::string why = WhyNoMountNamespace(dir_.path());
    if (!why.empty()) GTEST_SKIP() << "no mount namespace for the folders: " << why;
  }
  // The text of `body`, which runs where the driver has this layout.
  std::string In(const Layout& layout, const std::function<std::string()>& body) {
    return InChild([&] {
      MountNamespace space(dir_.path());
      space.MakeDevices(kDevices);
      layout.build(space);
      if (layout.library_path.empty()) {
        unsetenv("LD_LIBRARY_PATH");
      } else {
        setenv("LD_LIBRARY_PATH", layout.library_path.c_str(), 1);
      }
      return body();
    });
  }

  TempDir dir_;
};

TEST_F(EngineDriverTest, SandboxedEngineFindsTheDeviceInEveryLayout) {
  for (const Layout& layout : kLayouts) {
    const std::string found = In(layout, [] {
      const auto trial = TryEngine(DeviceEngine());
      return !trial.ok() ? trial.status().ToString() : trial->works ? "works" : "finds no device";
    });
    EXPECT_EQ(found, "works") << layout.name;
  }
}

TEST_F(EngineDriverTest, EngineWithoutAGpuReachesNoDevice) {
  for (const Layout& layout : kLayouts) {
    const std::string found = In(layout, [&] {
      return Starts(RulesOfDeviceEngine(/*gpu=*/false, layout.library_path)) ? "works" : "refused";
    });
    EXPECT_EQ(found, "refused") << layout.name;
  }
}

TEST_F(EngineDriverTest, NoRuleForAGpuIsThereWithoutNeed) {
  // Rules that an engine in no layout needed.
  std::map<std::string, bool> is_needed;
  for (const Layout& layout : kLayouts) {
    std::istringstream results(In(layout, [&] {
      std::string text;
      for (const auto& [name, rules] : Mutants(layout.library_path)) {
        text += (Starts(rules) ? "+" : "-") + name + "\n";
      }
      return text;
    }));
    for (std::string line; std::getline(results, line);) {
      ASSERT_THAT(line.substr(0, 1), testing::AnyOf("+", "-")) << line;
      is_needed[line.substr(1)] |= line[0] == '-';
    }
  }
  for (const char* rule : {"/dev/nvidiactl", "/dev/shm", "/usr/local/nvidia",
                           "/run/driver/550/libcuda.so.550.54.15"}) {
    EXPECT_TRUE(is_needed.contains(rule)) << rule;
  }
  for (const auto& [rule, needed] : is_needed) EXPECT_TRUE(needed) << rule;
}

TEST_F(EngineDriverTest, WhatTheSandboxKeepsFromTheEngineIsNamed) {
  const std::string explained = In(LayoutOf("Debian"), [&] {
    fs::create_directories(dir_ / "elsewhere");
    MountNamespace::Write(dir_ / "elsewhere/file", "1");
    setenv("NERF_TEST_NEEDS", (dir_ / "elsewhere/file").c_str(), 1);
    std::string text = ExplainSandbox(DeviceEngine()) + "\n";
    EngineProcessOptions mended = DeviceEngine();
    mended.sandbox.read_paths = {dir_ / "elsewhere"};
    text += TryEngine(mended)->works ? "works" : "does not";
    return text;
  });
  EXPECT_EQ(explained,
            "the engine works outside its sandbox and not in it; refused in it: openat " +
                dir_.path() +
                "/elsewhere/file; open a folder, file or device to it with --engine-reads PATH, or "
                "start the worker with --no-engine-sandbox (docs/run/security.md)\nworks");
}

TEST_F(EngineDriverTest, RefusedCallIsNamed) {
  const std::string explained = In(LayoutOf("container toolkit"), [&] {
    EngineProcessOptions options = DeviceEngine();
    // Everything that a GPU needs but its calls.
    options.sandbox.gpu = false;
    options.sandbox.write_paths = {"/dev/shm"};
    for (const std::string& device : kDevices) {
      options.sandbox.read_paths.push_back("/dev/" + device);
    }
    return ExplainSandbox(options);
  });
  EXPECT_THAT(explained, testing::StartsWith("the engine works outside its sandbox and not in it; "
                                             "refused in it: ioctl /dev/nvidiactl, "));
  EXPECT_THAT(explained, testing::HasSubstr("start the worker with --no-engine-sandbox"));
}

TEST_F(EngineDriverTest, EngineThatStartsNowhereIsNotTheSandboxsFault) {
  EXPECT_EQ(In(LayoutOf("Debian"),
               [&] {
                 setenv("NERF_TEST_NEEDS", (dir_ / "missing").c_str(), 1);
                 return ExplainSandbox(DeviceEngine());
               }),
            "");
  EXPECT_EQ(In(LayoutOf("Debian"), [] { return ExplainSandbox(DeviceEngine()); }), "");
}

// Needs no namespace.
TEST(EngineLibrariesTest, LibrariesAreFoundWhereTheLoaderWouldLook) {
  TempDir dir;
  dir.Write("path/libone.so", "");
  dir.Write("path/libone.txt", "");
  dir.Write("real/libtwo.so.2.5", "");
  fs::create_symlink(dir / "real/libtwo.so.2.5", dir / "path/libtwo.so.2");
  dir.Write("driver/libcuda.so.1", "");
  dir.Write("driver/libother.so", "");
  dir.Write("program/bin/engine", "");
  dir.Write("program/lib/libnerf_part.so", "");
  dir.Write("program/lib/libelse.so", "");
  LoaderPaths paths;
  paths.library_path = "/nowhere:" + (dir / "path");
  paths.cache = dir / "no-cache";
  paths.driver_folders = {dir / "driver"};
  const auto without_driver = FindEngineLibraries(dir / "program/bin/engine", false, {}, paths);
  EXPECT_THAT(without_driver.files,
              ElementsAre(dir / "path/libone.so", dir / "program/lib/libnerf_part.so",
                          dir / "real/libtwo.so.2.5"));
  EXPECT_EQ(without_driver.library_path, paths.library_path);
  const auto with_driver =
      FindEngineLibraries(dir / "program/bin/engine", true, {dir / "real"}, paths);
  EXPECT_THAT(with_driver.files, ElementsAre(dir / "driver/libcuda.so.1", dir / "path/libone.so",
                                             dir / "program/lib/libnerf_part.so"));
  EXPECT_EQ(with_driver.library_path, paths.library_path + ":" + (dir / "driver"));
}

TEST(EngineLibrariesTest, DamagedLoaderCacheIsMissed) {
  TempDir dir;
  for (const std::string& bytes : {std::string(), std::string("glibc-ld.so.cache1.1"),
                                   "glibc-ld.so.cache1.1" + std::string(64, '\xff')}) {
    dir.Write("cache", bytes);
    LoaderPaths paths;
    paths.cache = dir / "cache";
    paths.driver_folders.clear();
    EXPECT_THAT(FindEngineLibraries("/nowhere", true, {"/usr", "/lib"}, paths).files, IsEmpty());
  }
}

}  // namespace
}  // namespace nerf
