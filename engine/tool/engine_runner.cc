#include "engine/tool/engine_runner.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "engine/config/tensor_shapes.h"
#include "engine/kernels/cuda/device.h"
#include "engine/tool/machine.h"
#include "engine/train/memory_estimate.h"
#include "engine/train/ngp.h"
#include "engine/train/ngp_state.h"
#include "engine/train/tensor_file.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr char kAutogradMethod[] = "ngp-autograd";
constexpr char kAutogradLibrary[] = "libnerf_autograd.so";
constexpr char kAutogradFactory[] = "NerfNewAutogradStep";

// What LibTorch keeps of a sample until the backward pass, most of it the eight corners of sixteen
// levels.
constexpr uint64_t kAutogradSampleBytes = uint64_t{16} << 10;

// Exported by libnerf_autograd.so with C linkage. Does not throw.
using AutogradFactory = void (*)(const TrainConfig* config, const SceneGeometry* geometry,
                                 ThreadPool* pool,
                                 absl::StatusOr<std::unique_ptr<TrainingStep>>* step);

absl::Status NotBuilt(std::string message) {
  return WithReason(absl::UnimplementedError(message), reason::kFeatureNotBuilt);
}

// N of "cuda:N".
std::optional<int> CudaIndex(std::string_view device) {
  constexpr std::string_view kPrefix = "cuda:";
  if (device.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  const std::string_view digits = device.substr(kPrefix.size());
  int index = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || index < 0)
    return std::nullopt;
  return index;
}

absl::StatusOr<AutogradFactory> OpenAutograd() {
  const std::string path = AutogradLibraryPath();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return NotBuilt(
        fmt::format("method {} needs {}, which is not there: build with "
                    "NERF_ENABLE_TORCH, or use method ngp",
                    kAutogradMethod, path));
  }
  // LibTorch's OpenMP threads would spin between its operations, on the cores of our own pool; read
  // once, when the library comes in. What the user has set stands.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  // Never closed: its threads and static objects live as long as the process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotBuilt(fmt::format("cannot open {}: {}", path, dlerror()));
  void* symbol = dlsym(library, kAutogradFactory);
  if (symbol == nullptr) return NotBuilt(fmt::format("{} has no {}", path, kAutogradFactory));
  return reinterpret_cast<AutogradFactory>(symbol);
}

// The field in whole floats, whatever the file holds beside it and in which precision; the grid.
uint64_t ModelBytes(const TensorFile& file, const TrainedModel& model) {
  uint64_t n_parameters = 0;
  for (const TensorShape& tensor : FieldTensorShapes({})) {
    const auto found = file.tensors.find(tensor.name);
    if (found != file.tensors.end()) n_parameters += found->second.n_elements();
  }
  return n_parameters * sizeof(float) + model.grid.occupied_blocks.size() * sizeof(uint64_t);
}

}  // namespace

absl::Status Guarded(const std::function<absl::Status()>& body) {
  try {
    return body();
  } catch (const kernels::cuda::CudaOutOfMemory& e) {
    return WithReason(absl::ResourceExhaustedError(e.what()), reason::kGpuOutOfMemory);
  } catch (const kernels::cuda::CudaError& e) {
    return WithReason(absl::InternalError(e.what()), reason::kGpuFailed);
  } catch (const std::bad_alloc&) {
    return WithReason(absl::ResourceExhaustedError("out of memory"), reason::kOutOfMemory);
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  } catch (...) {
    return absl::InternalError("unknown exception");
  }
}

absl::Status CheckDevice(std::string_view device) {
  const std::optional<int> index = CudaIndex(device);
  const std::string name(device.substr(0, 32));
  if (device == "cpu") return absl::OkStatus();
  if (!index.has_value()) {
    return absl::InvalidArgumentError(fmt::format("device: '{}' is neither cpu nor cuda:N", name));
  }
  if (!kernels::cuda::IsBuilt()) {
    return NotBuilt(fmt::format("device {}: this build has no CUDA; use --device cpu", name));
  }
  const std::string why = kernels::cuda::WhyUnavailable(*index);
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("device {}: {}", name, why));
}

std::string DescriptionOf(std::string_view device) {
  const std::optional<int> cuda_index = CudaIndex(device);
  if (!cuda_index.has_value()) return DeviceDescription();
  const kernels::cuda::DeviceDescription found = kernels::cuda::DescribeDevice(*cuda_index);
  return fmt::format("{}, capability {}.{}, {} MiB", found.name, found.compute_capability / 10,
                     found.compute_capability % 10, found.total_bytes >> 20);
}

std::unique_ptr<DeviceMonitor> NewDeviceMonitor(std::string_view device) {
  const std::optional<int> cuda_index = CudaIndex(device);
  if (!cuda_index.has_value()) return nullptr;
  return DeviceMonitor::Open(kernels::cuda::DescribeDevice(*cuda_index).pci_bus_id);
}

absl::StatusOr<std::unique_ptr<RenderDevice>> NewRenderDevice(std::string_view device,
                                                              ThreadPool* pool) {
  NERF_RETURN_IF_ERROR(CheckDevice(device));
  const std::optional<int> cuda_index = CudaIndex(device);
  return cuda_index.has_value() ? NewCudaRenderDevice(*cuda_index) : NewCpuRenderDevice(pool);
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewTrainingStep(const TrainConfig& config,
                                                              const SceneGeometry& geometry,
                                                              const Scene& scene,
                                                              std::string_view device,
                                                              ThreadPool* pool) {
  if (config.method == kAutogradMethod) {
    NERF_ASSIGN_OR_RETURN(AutogradFactory factory, OpenAutograd());
    absl::StatusOr<std::unique_ptr<TrainingStep>> step = absl::InternalError("no step was made");
    factory(&config, &geometry, pool, &step);
    return step;
  }
  NERF_RETURN_IF_ERROR(CheckDevice(device));
  const std::optional<int> cuda_index = CudaIndex(device);
  if (!cuda_index.has_value()) return NewFusedHashGridStep(config, geometry, pool);
  kernels::cuda::UseDevice(*cuda_index);
  if (absl::Status status = CheckCudaTraining(config); !status.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("device {}: {}", device, std::string(status.message())));
  }
  const size_t needed = CudaHashGridStepBytes(config, geometry);
  const size_t free = kernels::cuda::DescribeDevice(*cuda_index).free_bytes;
  if (needed > free) {
    return WithReason(absl::ResourceExhaustedError(fmt::format(
                          "training needs {} MiB on device {} and {} MiB are free; a lower "
                          "log2_hashmap_size or target_samples needs less",
                          needed >> 20, device, free >> 20)),
                      reason::kGpuOutOfMemory);
  }
  RaySource source{scene.train, TrainingBackground(config.background, scene.has_alpha),
                   geometry.near};
  std::optional<PicturePlace> place;
  if (!scene.train.empty()) place = PlaceForPictures(source, free - needed, AvailableMemoryBytes());
  if (!place.has_value()) return NewCudaHashGridStep(config, geometry);
  source.place = *place;
  if (source.place == PicturePlace::kDevice) return NewCudaHashGridStep(config, geometry, &source);
  try {
    return NewCudaHashGridStep(config, geometry, &source);
  } catch (const kernels::cuda::CudaOutOfMemory&) {
    throw;  // a bad_alloc, too, but the device's
  } catch (const std::bad_alloc&) {
    LogWarning("the host lets no memory be locked for pictures: it draws the rays itself",
               {{"device", device}});
    return NewCudaHashGridStep(config, geometry);
  }
}

uint64_t TrainingStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                           int n_threads) {
  if (config.method != kAutogradMethod) return FusedHashGridStepBytes(config, geometry, n_threads);
  return FusedHashGridStepBytes(WithoutHalfTable(config), geometry, n_threads) +
         MostStepSamples(config) * kAutogradSampleBytes;
}

std::vector<std::string> TrainingMethods(std::string_view device) {
  std::vector<std::string> methods = {TrainConfig().method};
  std::error_code ignored;
  // It trains on the CPU whatever the device is.
  if (device == "cpu" && std::filesystem::exists(AutogradLibraryPath(), ignored)) {
    methods.push_back(kAutogradMethod);
  }
  return methods;
}

std::string AutogradLibraryPath() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return kAutogradLibrary;
  return (program.parent_path().parent_path() / "lib" / kAutogradLibrary).string();
}

absl::StatusOr<LoadedModel> LoadModelFile(const std::string& path, RenderDevice* device) {
  NERF_ASSIGN_OR_RETURN(TensorFile file, ReadTensorFile(path));
  NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(file, path));
  // Both methods train the same field and store it alike.
  absl::StatusOr<TrainedModel> model =
      LoadNgpModel(file, stored.state.config, stored.state.geometry);
  if (!model.ok()) {
    return absl::Status(
        model.status().code(),
        absl::string_view(fmt::format("{}: {}", path, std::string(model.status().message()))));
  }
  // A march through a grid that no config can ask for was never tried.
  if (model->grid.resolution != stored.state.config.grid_resolution) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the occupancy grid has {} cells along a side, its config says {}", path,
                    model->grid.resolution, stored.state.config.grid_resolution));
  }
  const uint64_t byte_size = ModelBytes(file, *model);
  TrainState& state = stored.state;
  auto renderer = device->Load(*std::move(model), state.geometry, RenderPrecisionOf(state.config));
  return LoadedModel{std::move(state), stored.kind, std::move(renderer), byte_size};
}

}  // namespace nerf
