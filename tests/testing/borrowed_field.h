#pragma once

#include <memory>
#include <utility>

#include "engine/field/marched_model.h"
#include "engine/scene/scene.h"

namespace nerf {

// A field owned by the test. Used where a MarchedModel takes ownership of its field.
class BorrowedField final : public RadianceField {
 public:
  explicit BorrowedField(const RadianceField& field) : field_(field) {}
  std::unique_ptr<Workspace> NewWorkspace(int max_samples) const override {
    return field_.NewWorkspace(max_samples);
  }
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override {
    field_.Density(n, positions, sigmas, workspace);
  }
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override {
    field_.Color(n, samples, directions, colors, workspace);
  }
  bool HasBackground() const override { return field_.HasBackground(); }
  void Background(int n, const Vec3* directions, Vec3* colors,
                  Workspace* workspace) const override {
    field_.Background(n, directions, colors, workspace);
  }

 private:
  const RadianceField& field_;
};

// A model of the field, which outlives it, in the scene's steps.
inline std::unique_ptr<MarchedModel> ModelOf(const RadianceField& field, OccupancyGrid grid,
                                             const SceneGeometry& geometry) {
  return std::make_unique<MarchedModel>("test", std::make_unique<BorrowedField>(field),
                                        std::move(grid),
                                        kernels::MarchSteps{geometry.step, geometry.cone}, 0);
}

}  // namespace nerf
