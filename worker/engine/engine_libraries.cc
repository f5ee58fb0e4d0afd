#include "worker/engine/engine_libraries.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/files/file_io.h"
#include "common/process/child_process.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr char kDriver[] = "libcuda.so.1";
constexpr uint64_t kMaxCacheBytes = uint64_t{64} << 20;
constexpr absl::Duration kListTimeLimit = absl::Seconds(30);

// The loader's cache. Source: glibc, sysdeps/generic/dl-cache.h.
constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";
struct CacheHeader {
  char magic[kCacheMagic.size()];
  uint32_t n_libraries, string_bytes, flags, extension_offset, unused[3];
};
struct CacheEntry {
  int32_t flags;
  uint32_t name, path;  // offsets from the header
  uint32_t os_version;
  uint64_t hardware;
};
#if defined(__x86_64__)
constexpr int32_t kThisArchitecture = 0x0303;
#elif defined(__aarch64__)
constexpr int32_t kThisArchitecture = 0x0a03;
#endif

bool IsLibrary(std::string_view name) {
  return name.starts_with("lib") &&
         (name.ends_with(".so") || name.find(".so.") != std::string_view::npos);
}

bool IsOfDriver(std::string_view name) {
  return name.starts_with("libcuda.so") || name.starts_with("libcudadebugger.so") ||
         name.starts_with("libnvidia-");
}

// Name and path of each library of this architecture.
std::vector<std::pair<std::string, std::string>> ReadLoaderCache(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> libraries;
  const absl::StatusOr<std::string> file = ReadFile(path, kMaxCacheBytes);
  if (!file.ok()) return libraries;
  // An older format may come first.
  const size_t begin = file->find(kCacheMagic);
  if (begin == std::string::npos) return libraries;
  const std::string_view bytes = std::string_view(*file).substr(begin);
  CacheHeader header;
  if (bytes.size() < sizeof(header)) return libraries;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto text_at = [&](uint32_t offset) {
    const std::string_view rest = bytes.substr(std::min<size_t>(offset, bytes.size()));
    return std::string(rest.substr(0, rest.find('\0')));
  };
  for (uint32_t i = 0; i < header.n_libraries; ++i) {
    const size_t at = sizeof(header) + i * sizeof(CacheEntry);
    if (at + sizeof(CacheEntry) > bytes.size()) break;
    CacheEntry entry;
    std::memcpy(&entry, bytes.data() + at, sizeof(entry));
    if (entry.flags != kThisArchitecture) continue;
    libraries.emplace_back(text_at(entry.name), text_at(entry.path));
  }
  return libraries;
}

// The libraries that the loader finds for a program or library, without running it.
std::vector<std::string> ListedFor(const std::string& file) {
  std::vector<std::string> libraries;
  const std::vector<std::string> loaders = ProgramLoaders();
  if (loaders.empty()) return libraries;
  ChildProcessSpec spec;
  spec.arguments = {loaders.front(), "--list", file};
  spec.time_limit = kListTimeLimit;
  // "\tlibfmt.so.9 => /lib/x86_64-linux-gnu/libfmt.so.9 (0x00007f0000000000)"
  const auto take = [&](std::string_view line) {
    const size_t arrow = line.find(" => /"), end = line.rfind(" (");
    if (arrow == std::string_view::npos || end == std::string_view::npos || end < arrow) return;
    libraries.emplace_back(line.substr(arrow + 4, end - arrow - 4));
  };
  // A script or a static program has none.
  RunChildProcess(spec, take, [] {}, {}).status().IgnoreError();
  return libraries;
}

std::vector<std::string> FoldersOf(const std::string& library_path) {
  return absl::StrSplit(library_path, ':', absl::SkipEmpty());
}

// Collects libraries outside some folders.
class Collector {
 public:
  explicit Collector(const std::vector<std::string>& known_folders) {
    for (const std::string& folder : known_folders) {
      std::error_code error;
      const fs::path real = fs::canonical(folder, error);
      if (!error) known_.push_back(real.string() + "/");
    }
  }

  // The file that a path names, through links.
  void Add(const fs::path& file) {
    std::error_code error;
    const std::string real = fs::canonical(file, error).string();
    if (!error && !IsKnown(real)) files_.insert(real);
  }

  void AddFolder(const fs::path& folder,
                 const std::function<bool(std::string_view name)>& is_wanted) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (is_wanted(it->path().filename().string())) Add(it->path());
    }
  }

  // The file, and with it its neighbors unless it lies in a known folder.
  void AddWithNeighbors(const std::string& file) {
    std::error_code error;
    const fs::path folder = fs::canonical(fs::path(file).parent_path(), error);
    if (error || IsKnown(folder.string() + "/")) return Add(file);
    AddFolder(folder, IsLibrary);
  }

  std::vector<std::string> Files() const { return {files_.begin(), files_.end()}; }

 private:
  bool IsKnown(const std::string& real) const {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const std::string& folder) { return real.starts_with(folder); });
  }

  std::vector<std::string> known_;
  std::set<std::string> files_;
};

// Whether the loader finds the driver. If it does only by a folder that it does not know, that is
// added to *library_path.
void FindDriver(const LoaderPaths& paths, Collector* files, std::string* library_path) {
  bool is_found = false;
  const auto look_in = [&](const std::string& folder) {
    std::error_code error;
    return fs::exists(fs::path(folder) / kDriver, error);
  };
  for (const std::string& folder : FoldersOf(paths.library_path)) {
    is_found = is_found || look_in(folder);
  }
  for (const auto& [name, path] : ReadLoaderCache(paths.cache)) {
    if (!IsOfDriver(name)) continue;
    files->Add(path);
    std::error_code error;
    is_found = is_found || (name == kDriver && fs::exists(path, error));
  }
  // The loader's own folders, also where its cache was not made again.
  for (const std::string& loader : ProgramLoaders()) {
    const std::string folder = fs::path(loader).parent_path().string();
    if (!look_in(folder)) continue;
    is_found = true;
    files->AddFolder(folder, IsOfDriver);
  }
  for (const std::string& folder : paths.driver_folders) {
    if (!look_in(folder)) continue;
    files->AddFolder(folder, IsOfDriver);
    if (is_found) continue;
    is_found = true;
    if (!library_path->empty()) absl::StrAppend(library_path, ":");
    absl::StrAppend(library_path, folder);
  }
}

}  // namespace

EngineLibraries FindEngineLibraries(const std::string& program, bool with_driver,
                                    const std::vector<std::string>& known_folders,
                                    const LoaderPaths& paths) {
  Collector files(known_folders);
  EngineLibraries found;
  found.library_path = paths.library_path;
  for (const std::string& folder : FoldersOf(paths.library_path))
    files.AddFolder(folder, IsLibrary);
  std::error_code error;
  const fs::path real_program = fs::canonical(program, error);
  std::vector<std::string> roots = {real_program.string()};
  for (fs::directory_iterator it(real_program.parent_path().parent_path() / "lib", error), end;
       !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with("libnerf_")) continue;
    roots.push_back(it->path().string());
    files.Add(roots.back());
  }
  for (const std::string& root : roots) {
    for (const std::string& library : ListedFor(root)) files.AddWithNeighbors(library);
  }
  if (with_driver) FindDriver(paths, &files, &found.library_path);
  found.files = files.Files();
  return found;
}

std::vector<std::string> ProgramLoaders() {
  std::vector<std::string> loaders;
  for (const char* folder : {"/lib64", "/lib", "/usr/lib64"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (!entry.path().filename().string().starts_with("ld-linux")) continue;
      const std::string real = fs::canonical(entry.path(), error).string();
      if (!error && std::find(loaders.begin(), loaders.end(), real) == loaders.end()) {
        loaders.push_back(real);
      }
    }
  }
  return loaders;
}

}  // namespace nerf
