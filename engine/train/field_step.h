#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/train/field_chunk.h"
#include "engine/train/occupancy_updater.h"
#include "engine/train/ray_step.h"

namespace nerf {

struct FieldStepOptions {
  // Gradients are summed in this many lanes: chunk i adds to lane i mod n_lanes in order, so that
  // the result does not depend on the number of threads. At most this many threads work at once.
  int n_lanes = 16;
  int chunk_samples = 512;  // trained samples that a chunk should have
};

// A step that trains a field on an occupancy grid by chunks of rays (FieldChunk) on all threads.
// The derived class brings the field and updates its parameters.
class FieldStep : public RayStep {
 public:
  FieldStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
            ThreadPool* pool, const FieldStepOptions& options);
  ~FieldStep() override;

  StepResult RunRays(const RayBatch& batch) override;
  double OccupiedFraction() const override { return occupancy_.grid().OccupiedFraction(); }
  void ReopenGrid() override;
  void KeepEmpty(const EmptyCells& cells) override;

 protected:
  // The field for one thread. It reads the parameters of the derived class.
  virtual std::unique_ptr<ChunkField> NewChunkField() = 0;
  // The field's densities for the occupancy update.
  virtual OccupancyUpdater::Density ProbedDensity() = 0;
  // Applies the gradients of the chunks; t counts updates from 1. Returns false if a parameter is
  // not finite afterwards.
  virtual bool UpdateParameters(const RayBatch& batch, int t) = 0;

  const TrainConfig& config() const { return config_; }
  const SceneGeometry& geometry() const { return geometry_; }
  ThreadPool* pool() const { return pool_; }
  const OccupancyUpdater& occupancy() const { return occupancy_; }

  // The part of the state that is not the field's: grid, ray count, number of updates. LoadCommon
  // changes nothing where it fails; call it last.
  void SaveCommon(TensorFile* file) const;
  absl::Status LoadCommon(const TensorFile& file);
  // As TrainingStep::Initialize, without the field.
  void InitializeCommon(const TensorFile& file);

 private:
  void RunChunks(const RayBatch& batch);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  const FieldStepOptions options_;
  OccupancyUpdater occupancy_;
  std::vector<uint8_t> empty_distances_;             // of the grid's blocks
  bool grid_changed_ = true;                         // since they were found
  std::vector<std::unique_ptr<ChunkField>> fields_;  // one a thread
  std::vector<FieldChunk> chunks_;                   // one a thread
  std::vector<ChunkSums> sums_;                      // one a lane
  uint32_t n_updates_ = 0;
};

}  // namespace nerf
