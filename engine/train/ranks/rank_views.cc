#include "engine/train/ranks/rank_views.h"

#include <cstring>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/pixel_offset.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Tiles of a rank between two checks for pauses and stops: 30 ms of a core at 2 us per ray and one
// ray per pixel.
constexpr int kTilesAtOnce = 64;

// What rank 0 says after kView: tiles that all ranks render now.
struct ViewRound {
  Camera camera;
  RenderOptions options;
  TileRange tiles;
};

// Neighboring tiles take similar time, so they go to different ranks.
TileRange TilesOfRank(const ViewRound& round, int rank, int n_ranks) {
  TileRange tiles = round.tiles;
  tiles.begin += rank;
  tiles.step = n_ranks;
  return tiles;
}

std::vector<RenderedRay> RaysIn(Bytes bytes) {
  std::vector<RenderedRay> rays(bytes.size() / sizeof(RenderedRay));
  if (!rays.empty()) std::memcpy(rays.data(), bytes.data(), rays.size() * sizeof(RenderedRay));
  return rays;
}

class RankPictureRender final : public PictureRender {
 public:
  RankPictureRender(RankPause* pause, uint32_t views, TileRenderer* tiles, ViewRender view,
                    const ViewRound& round, ThreadPool* pool)
      : pause_(pause),
        views_(views),
        tiles_(tiles),
        view_(std::move(view)),
        round_(round),
        pool_(pool) {}

  bool Advance(const std::function<bool()>& pause, const std::stop_token& stop) override {
    while (is_shared_) {
      if (stop.stop_requested()) return false;
      is_shared_ = pause_->Use(views_, [this](Group* group) { RenderRound(group); });
      if (!is_shared_) break;
      if (view_.EndTiles(round_.tiles)) return true;
      if (pause && pause()) return false;
    }
    return view_.Advance(pool_, pause, stop);
  }
  bool finished() const override { return view_.finished(); }
  ViewPicture TakePicture() override { return Quantized(view_.TakeView()); }

 private:
  void RenderRound(Group* group) {
    const int n_ranks = group->n_ranks();
    round_.tiles = view_.NextTiles(kTilesAtOnce * n_ranks);
    TellRanks(group, {RankWord::Kind::kView});
    BroadcastValue(group, 0, &round_);
    const auto mine =
        tiles_->Render(round_.camera, round_.options, TilesOfRank(round_, 0, n_ranks), pool_);
    Gather(group, 0, {}, &from_);
    for (int rank = 0; rank < n_ranks; ++rank) {
      const bool fits = view_.Place(TilesOfRank(round_, rank, n_ranks),
                                    rank == 0 ? mine : RaysIn(from_[rank].bytes()));
      if (!fits) throw GroupError(fmt::format("rank {} sent another part of a view", rank), rank);
    }
  }

  RankPause* const pause_;
  const uint32_t views_;
  TileRenderer* const tiles_;
  ViewRender view_;
  ViewRound round_;
  ThreadPool* const pool_;
  bool is_shared_ = true;
  std::vector<ByteBlock> from_;
};

class RankRenderer final : public SceneRenderer {
 public:
  RankRenderer(std::shared_ptr<RankPause> pause, uint32_t views,
               std::unique_ptr<TrainedModel> model, float near, ThreadPool* pool)
      : pause_(std::move(pause)),
        views_(views),
        model_(std::move(model)),
        near_(near),
        pool_(pool),
        tiles_(*model_, near) {}

  std::unique_ptr<PictureRender> Begin(const Camera& camera,
                                       const RenderOptions& options) override {
    return std::make_unique<RankPictureRender>(pause_.get(), views_, &tiles_,
                                               ViewRender(*model_, near_, camera, options),
                                               ViewRound{camera, options, {}}, pool_);
  }
  Aabb OccupiedBox() const override { return model_->OccupiedBox(); }
  std::optional<double> OccupiedShare() const override { return model_->OccupiedShare(); }

 private:
  const std::shared_ptr<RankPause> pause_;
  const uint32_t views_;
  const std::unique_ptr<const TrainedModel> model_;
  const float near_;
  ThreadPool* const pool_;
  TileRenderer tiles_;
};

}  // namespace

std::unique_ptr<SceneRenderer> NewRankRenderer(std::shared_ptr<RankPause> pause,
                                               std::unique_ptr<TrainedModel> model, float near,
                                               ThreadPool* pool) {
  const uint32_t views = pause->LoadViews();
  return std::make_unique<RankRenderer>(std::move(pause), views, std::move(model), near, pool);
}

RankViews::RankViews(Group* group, float near, ThreadPool* pool)
    : group_(group), near_(near), pool_(pool) {}

void RankViews::Load(std::unique_ptr<TrainedModel> model) {
  tiles_.reset();
  model_ = std::move(model);
  tiles_.emplace(*model_, near_);
}

void RankViews::Render() {
  ViewRound round;
  BroadcastValue(group_, 0, &round);
  if (!tiles_.has_value()) throw GroupError("rank 0 asks for a view before its weights", 0);
  const int n = round.options.rays_per_pixel;
  if (!AreRaysOfView(n))
    throw GroupError("rank 0 asks for a view of pixels with " + std::to_string(n) + " rays", 0);
  const auto rays = tiles_->Render(round.camera, round.options,
                                   TilesOfRank(round, group_->rank(), group_->n_ranks()), pool_);
  std::vector<ByteBlock> none;
  Gather(group_, 0, BytesOf(std::span(rays)), &none);
}

}  // namespace nerf
