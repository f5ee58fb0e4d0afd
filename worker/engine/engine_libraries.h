#pragma once

#include <string>
#include <vector>

namespace nerf {

// Where the loader of shared libraries looks for them by name.
struct LoaderPaths {
  std::string library_path;  // LD_LIBRARY_PATH
  std::string cache = "/etc/ld.so.cache";
  // Folders that cloud images and containers have NVIDIA's driver in without telling the loader.
  std::vector<std::string> driver_folders = {"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
                                             "/usr/lib/wsl/lib"};
};

// The libraries that an engine loads.
struct EngineLibraries {
  // Real paths of the libraries outside `known_folders`. Where one lies in a folder, the others of
  // that folder are listed, too: libraries load their neighbors.
  std::vector<std::string> files;
  // For LD_LIBRARY_PATH: `library_path`, and the driver's folder where the loader would miss it.
  std::string library_path;
};

// Finds what the loader would: the libraries of LD_LIBRARY_PATH, those that `program` and its
// ../lib/libnerf_*.so are linked with and, `with_driver`, libcuda.so.1 and its neighbors. Libraries
// in `known_folders`, which the engine may read anyway, are left out. What cannot be read is
// missed.
EngineLibraries FindEngineLibraries(const std::string& program, bool with_driver,
                                    const std::vector<std::string>& known_folders,
                                    const LoaderPaths& paths);

// The programs that the kernel runs to load dynamic programs, by their real paths.
std::vector<std::string> ProgramLoaders();

}  // namespace nerf
