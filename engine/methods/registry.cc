#include "engine/methods/registry.h"

#include <map>
#include <utility>

#include "common/logging.h"
#include "engine/base/check.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/parallel_for.h"

namespace nerf {

#define NERF_METHOD(folder, Name) const Method& Name##Method();
#include "engine/base/method_list/method_list.inc"
#undef NERF_METHOD

namespace {

std::vector<const Method*>& Registry() {
  static auto& registry = *new std::vector<const Method*>{
#define NERF_METHOD(folder, Name) &Name##Method(),
#include "engine/base/method_list/method_list.inc"
#undef NERF_METHOD
  };
  return registry;
}

class CudaRenderDevice final : public RenderDevice {
 public:
  explicit CudaRenderDevice(int index) : index_(index) {}

  std::unique_ptr<SceneRenderer> Load(std::unique_ptr<TrainedModel> model,
                                      const SceneGeometry& geometry,
                                      RenderPrecision precision) override {
    const Method* method = FindMethod(model->method());
    NERF_CHECK(method != nullptr);
    if (model->NeedsCpu() || (method->description().rendering_devices() & kOnCuda) == 0)
      return OnCpu()->Load(std::move(model), geometry, precision);
    std::unique_ptr<RenderDevice>& device = devices_[method];
    if (device == nullptr) device = method->NewCudaRenderDevice(index_);
    return device->Load(std::move(model), geometry, precision);
  }

 private:
  // For models that no device renders.
  RenderDevice* OnCpu() {
    if (cpu_ != nullptr) return cpu_.get();
    LogWarning("a model that no device renders is rendered on the CPU");
    pool_ = std::make_unique<ThreadPool>(0);
    cpu_ = NewCpuRenderDevice(pool_.get());
    return cpu_.get();
  }

  const int index_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<RenderDevice> cpu_;
  std::map<const Method*, std::unique_ptr<RenderDevice>> devices_;
};

}  // namespace

std::vector<const Method*> Methods() { return Registry(); }

const Method* FindMethod(std::string_view name) {
  for (const Method* method : Registry()) {
    if (method->description().name() == name) return method;
  }
  return nullptr;
}

const Method& MethodOf(const TrainConfig& config) {
  const Method* method = FindMethod(config.method);
  NERF_CHECK(method != nullptr);
  return *method;
}

void AddMethod(const Method* method) {
  AddMethodDescription(&method->description());
  Registry().push_back(method);
}

std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) {
  return std::make_unique<CudaRenderDevice>(index);
}

}  // namespace nerf
