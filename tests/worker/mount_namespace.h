#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nerf {

// Folders of the system that a test replaces, in a mount namespace of its own: nobody else sees it,
// and nothing is left of it. Functions throw std::runtime_error.
class MountNamespace {
 public:
  // Enters one. `scratch` exists, and is for this class. For a process of one thread.
  explicit MountNamespace(std::string scratch) : scratch_(std::move(scratch)) {
    const int user = static_cast<int>(getuid()), group = static_cast<int>(getgid());
    if (unshare(CLONE_NEWNS) != 0) {
      Check(unshare(CLONE_NEWNS | CLONE_NEWUSER), "unshare");
      Write("/proc/self/setgroups", "deny");
      Write("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
      Write("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
    }
    Check(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "make mounts private");
    Check(mount("none", scratch_.c_str(), "tmpfs", 0, nullptr), "mount " + scratch_);
  }

  // An empty folder in the place of one that exists.
  void Empty(const std::string& folder) {
    Check(mount("none", folder.c_str(), "tmpfs", 0, "mode=755"), "mount " + folder);
  }

  // Lets files be added to a folder.
  void Overlay(const std::string& folder) {
    const std::string base = scratch_ + "/" + std::to_string(++n_overlays_);
    std::filesystem::create_directories(base + "/upper");
    std::filesystem::create_directories(base + "/work");
    const std::string options =
        "lowerdir=" + folder + ",upperdir=" + base + "/upper,workdir=" + base + "/work";
    Check(mount("none", folder.c_str(), "overlay", 0, options.c_str()), "overlay " + folder);
  }

  // A file in the place of another one, which is made if it does not exist.
  static void Bind(const std::string& file, const std::string& place) {
    std::filesystem::create_directories(std::filesystem::path(place).parent_path());
    if (!std::filesystem::exists(place)) std::ofstream(place).flush();
    Check(mount(file.c_str(), place.c_str(), nullptr, MS_BIND, nullptr), "bind " + place);
  }

  // A /dev with null, zero, urandom, shm, and these others: each a device like null or, where that
  // cannot be made, an empty file.
  void MakeDevices(const std::vector<std::string>& others) {
    const std::string folder = scratch_ + "/dev";
    std::filesystem::create_directories(folder);
    Check(mount("none", folder.c_str(), "tmpfs", 0, "mode=755"), "mount " + folder);
    for (const char* name : {"null", "zero", "urandom"}) {
      Bind(std::string("/dev/") + name, folder + "/" + name);
    }
    for (const std::string& name : others) {
      const std::string device = folder + "/" + name;
      std::filesystem::create_directories(std::filesystem::path(device).parent_path());
      if (mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) Write(device, "");
    }
    std::filesystem::create_directories(folder + "/shm");
    Check(mount("none", (folder + "/shm").c_str(), "tmpfs", 0, "mode=1777"), "mount shm");
    Check(mount(folder.c_str(), "/dev", nullptr, MS_BIND | MS_REC, nullptr), "bind /dev");
  }

  static void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(path);
    file << text;
    if (!file.flush()) throw std::runtime_error(path + " cannot be written");
  }

 private:
  static void Check(int result, const std::string& what) {
    if (result != 0) throw std::runtime_error(what + ": " + std::strerror(errno));
  }

  const std::string scratch_;
  int n_overlays_ = 0;
};

// Runs `body` in a child process and returns its text; "error: ..." for an exception.
inline std::string InChild(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "error: no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = body();
    } catch (const std::exception& e) {
      text = std::string("error: ") + e.what();
    }
    const bool whole =
        write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(whole ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t n; (n = read(ends[0], bytes, sizeof(bytes))) > 0;) {
    text.append(bytes, static_cast<size_t>(n));
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

// Why this process can make no mount namespace; empty if it can.
inline std::string WhyNoMountNamespace(const std::string& scratch) {
  return InChild([&] {
    MountNamespace space(scratch);
    space.Overlay("/etc");
    return std::string();
  });
}

}  // namespace nerf
