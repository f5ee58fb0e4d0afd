#pragma once

#include <memory>
#include <optional>

#include "engine/base/parallel_for.h"
#include "engine/field/trained_model.h"
#include "engine/train/group/group.h"
#include "engine/train/ranks/rank_words.h"
#include "engine/views/render/render_device.h"
#include "engine/views/render/renderer.h"

namespace nerf {

// On rank 0, a renderer of the current weights whose pictures are shared out to all ranks by tiles
// while `pause` lasts, and are rendered here alone after it. Pictures have the bytes of one rank.
// pool outlives the renderer. PictureRender::Advance throws GroupError when a rank is lost.
// Requires: a pause, for which all ranks have collected their state. Throws GroupError.
std::unique_ptr<SceneRenderer> NewRankRenderer(std::shared_ptr<RankPause> pause,
                                               std::unique_ptr<TrainedModel> model, float near,
                                               ThreadPool* pool);

// The part of another rank in the views of rank 0. Used from one thread.
class RankViews {
 public:
  RankViews(Group* group, float near, ThreadPool* pool);

  // After kLoadViews: the model of the views to come.
  void Load(std::unique_ptr<TrainedModel> model);
  // After kView: renders this rank's tiles and sends them. Throws GroupError.
  void Render();

 private:
  Group* const group_;
  const float near_;
  ThreadPool* const pool_;
  std::unique_ptr<TrainedModel> model_;
  std::optional<TileRenderer> tiles_;  // of model_
};

}  // namespace nerf
