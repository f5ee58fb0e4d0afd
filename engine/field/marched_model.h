#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/field/kernels/ray_marching.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/radiance_field.h"
#include "engine/field/trained_model.h"

namespace nerf {

// A radiance field that is rendered by marching rays through the occupied cells of a grid, a few
// samples at a time: only rays with light left go on.
// Sources: Mildenhall et al. 2020, eq. 3; Mueller et al. 2022, section 5.
class MarchedModel final : public TrainedModel {
 public:
  // method: see TrainedModel::method; a literal. field_bytes: memory of the field.
  MarchedModel(std::string_view method, std::unique_ptr<const RadianceField> field,
               OccupancyGrid grid, const kernels::MarchSteps& steps, uint64_t field_bytes);
  // t_far: where rays end. needs_cpu: see TrainedModel::NeedsCpu.
  struct Limits {
    float t_far = Ray().t_far;
    bool needs_cpu = false;
  };
  MarchedModel(std::string_view method, std::unique_ptr<const RadianceField> field,
               OccupancyGrid grid, const kernels::MarchSteps& steps, uint64_t field_bytes,
               const Limits& limits);

  const RadianceField& field() const { return *field_; }
  const OccupancyGrid& grid() const { return grid_; }
  // EmptyDistances of the grid.
  const std::vector<uint8_t>& empty_distances() const { return empty_distances_; }

  std::unique_ptr<Workspace> NewWorkspace() const override;
  bool RenderRays(const RayTile& tile, const std::stop_token& stop, Workspace* workspace,
                  RenderedRay* rendered) const override;
  Aabb OccupiedBox() const override { return grid_.OccupiedBox(); }
  std::optional<double> OccupiedShare() const override { return grid_.OccupiedFraction(); }
  uint64_t byte_size() const override;
  std::string_view method() const override { return method_; }
  bool NeedsCpu() const override { return limits_.needs_cpu; }

 private:
  const std::string_view method_;
  const std::unique_ptr<const RadianceField> field_;
  const OccupancyGrid grid_;
  const std::vector<uint8_t> empty_distances_;
  const kernels::MarchSteps steps_;
  const uint64_t field_bytes_;
  const Limits limits_;
};

}  // namespace nerf
