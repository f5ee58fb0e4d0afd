#include "engine/methods/ngp/proposal_model.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"
#include "engine/methods/ngp/proposal_sampling.h"
#include "engine/methods/ngp/proposals.h"

namespace nerf {
namespace {

constexpr int kRaysAtOnce = 16;
// Training follows every ray to its end.
constexpr float kMaxMinTransmittance = 1e-3f;

// What both networks are evaluated by, and for how many rays at once.
struct ProposalFields {
  int rays_at_once = 0;
  std::shared_ptr<const RadianceField> proposal, field;
};

// Samples of a group of rays in one network.
struct Samples {
  Samples(const RadianceField& field, int rays_at_once, int n_per_ray)
      : workspace(field.NewWorkspace(n_per_ray * rays_at_once)), n_per_ray(n_per_ray) {
    const size_t n = static_cast<size_t>(n_per_ray) * rays_at_once;
    edges.resize(n + rays_at_once);
    for (std::vector<float>* column : {&t_middles, &deltas, &sigmas, &alphas}) column->resize(n);
    positions.resize(n);
  }
  float* EdgesOf(int ray) { return edges.data() + static_cast<size_t>(ray) * (n_per_ray + 1); }

  // Opacities of the intervals between the edges; the last one of a ray is opaque if it has_end.
  void Evaluate(const RadianceField& field, int n_rays, const Ray* rays, const RaySpan* spans,
                bool has_end) {
    for (int r = 0; r < n_rays; ++r) {
      for (int i = 0; i < n_per_ray; ++i) {
        const float* const edge = EdgesOf(r) + i;
        const int row = r * n_per_ray + i;
        t_middles[row] = spans[r].DistanceAt(0.5f * (edge[0] + edge[1]));
        deltas[row] = spans[r].DistanceAt(edge[1]) - spans[r].DistanceAt(edge[0]);
        positions[row] = rays[r].origin + rays[r].direction * t_middles[row];
      }
    }
    const int n = n_rays * n_per_ray;
    field.Density(n, positions.data(), sigmas.data(), workspace.get());
    kernels::cpu::Alphas(
        {.n = n, .sigmas = sigmas.data(), .deltas = deltas.data(), .alphas = alphas.data()});
    for (int r = 0; r < n_rays && has_end; ++r) alphas[(r + 1) * n_per_ray - 1] = 1;
  }

  std::unique_ptr<RadianceField::Workspace> workspace;
  const int n_per_ray;
  std::vector<float> edges, t_middles, deltas, sigmas, alphas;
  std::vector<Vec3> positions;
};

struct ProposalWorkspace final : TrainedModel::Workspace {
  ProposalWorkspace(const ProposalFields& fields, int n_proposals, int n_samples)
      : proposals(*fields.proposal, fields.rays_at_once, n_proposals),
        samples(*fields.field, fields.rays_at_once, n_samples),
        weights(n_proposals) {}
  Samples proposals, samples;
  std::vector<float> weights, visible_weights;
  std::vector<int> visible, ray_of;
  std::vector<Vec3> directions, colors;
};

class ProposalModel final : public TrainedModel {
 public:
  ProposalModel(const TrainConfig& config, const SceneGeometry& geometry,
                NgpEvaluationParameters proposal, NgpEvaluationParameters field)
      : settings_(Ngp(config)),
        box_(geometry.box),
        far_(geometry.far),
        disparity_(UsesDisparity(config, geometry)),
        proposal_(
            std::make_shared<NgpField>(ProposalSceneNetwork(NgpProposalConfig(config), geometry),
                                       std::move(proposal.table), std::move(proposal.weights))),
        field_(std::make_shared<NgpField>(ProposalSceneNetwork(config, geometry),
                                          std::move(field.table), std::move(field.weights))),
        fields_{kRaysAtOnce, proposal_, field_} {}

  // Evaluates by other fields from now on.
  void EvaluateBy(const NewProposalField& new_field, int rays_at_once) {
    fields_ = {rays_at_once, new_field(*proposal_), new_field(*field_)};
  }

  std::unique_ptr<Workspace> NewWorkspace() const override {
    return std::make_unique<ProposalWorkspace>(fields_, settings_.proposal_samples,
                                               settings_.field_samples);
  }
  bool RenderRays(const RayTile& tile, const std::stop_token& stop, Workspace* workspace,
                  RenderedRay* rendered) const override {
    auto& w = static_cast<ProposalWorkspace&>(*workspace);
    const int at_once = fields_.rays_at_once;
    std::vector<Ray> rays(at_once);
    std::vector<RaySpan> spans(at_once);
    std::vector<int> indices(at_once);
    int n = 0;
    for (size_t r = 0; r < tile.rays.size(); ++r) {
      if (stop.stop_requested()) return false;
      rays[n] = tile.rays[r];
      rays[n].t_far = std::min(rays[n].t_far, far_);
      spans[n] = SpanOfRay(field_->network().box, rays[n], disparity_);
      rendered[r] = {tile.background, 0, 0};
      if (spans[n].IsEmpty()) continue;
      indices[n] = static_cast<int>(r);
      if (++n < at_once) continue;
      RenderGroup(tile, n, rays.data(), spans.data(), indices.data(), &w, rendered);
      n = 0;
    }
    RenderGroup(tile, n, rays.data(), spans.data(), indices.data(), &w, rendered);
    return true;
  }
  Aabb OccupiedBox() const override { return box_; }
  uint64_t byte_size() const override { return proposal_->byte_size() + field_->byte_size(); }
  std::string_view method() const override { return "ngp"; }

 private:
  void RenderGroup(const RayTile& tile, int n_rays, const Ray* rays, const RaySpan* spans,
                   const int* indices, ProposalWorkspace* w, RenderedRay* rendered) const;

  const NgpSettings settings_;
  const Aabb box_;
  const float far_;
  const bool disparity_;
  const std::shared_ptr<const NgpField> proposal_, field_;
  ProposalFields fields_;
};

void ProposalModel::RenderGroup(const RayTile& tile, int n_rays, const Ray* rays,
                                const RaySpan* spans, const int* indices, ProposalWorkspace* w,
                                RenderedRay* rendered) const {
  if (n_rays == 0) return;
  const bool has_end = settings_.learned_background != 0 && tile.own_background;
  const int n_proposals = settings_.proposal_samples, n_samples = settings_.field_samples;
  for (int r = 0; r < n_rays; ++r)
    EvenEdges(n_proposals, kernels::kViewJitter, w->proposals.EdgesOf(r));
  w->proposals.Evaluate(*fields_.proposal, n_rays, rays, spans, has_end);
  for (int r = 0; r < n_rays; ++r) {
    float transmittance = 1;
    for (int i = 0; i < n_proposals; ++i) {
      w->weights[i] =
          kernels::CompositeForwardStep(w->proposals.alphas[r * n_proposals + i], &transmittance);
    }
    ResampledEdges(n_proposals, w->proposals.EdgesOf(r), w->weights.data(), 1, n_samples,
                   kernels::kViewJitter, w->samples.EdgesOf(r));
  }
  w->samples.Evaluate(*fields_.field, n_rays, rays, spans, has_end);
  std::vector<kernels::ViewAccumulator> accumulators(n_rays);
  w->visible.clear();
  w->visible_weights.clear();
  w->ray_of.clear();
  w->directions.clear();
  const float limit = std::min(tile.min_transmittance, kMaxMinTransmittance);
  for (int row = 0; row < n_rays * n_samples; ++row) {
    const int r = row / n_samples;
    if (accumulators[r].Ended()) continue;
    const float weight =
        accumulators[r].AddSample(w->samples.alphas[row], w->samples.t_middles[row], limit);
    if (weight == 0) continue;
    w->visible.push_back(row);
    w->visible_weights.push_back(weight);
    w->ray_of.push_back(r);
    w->directions.push_back(rays[r].direction);
  }
  w->colors.resize(w->visible.size());
  fields_.field->Color(static_cast<int>(w->visible.size()), w->visible.data(), w->directions.data(),
                       w->colors.data(), w->samples.workspace.get());
  for (size_t i = 0; i < w->visible.size(); ++i)
    accumulators[w->ray_of[i]].AddColor(w->colors[i], w->visible_weights[i]);
  for (int r = 0; r < n_rays; ++r) {
    rendered[indices[r]] = {accumulators[r].ColorOn(tile.background), accumulators[r].Opacity(),
                            accumulators[r].ExpectedDepth()};
  }
}

}  // namespace

NgpNetwork ProposalSceneNetwork(const TrainConfig& config, const SceneGeometry& geometry) {
  const NgpSettings& settings = Ngp(config);
  return {.shape = NgpHashGridShape({.log2_hashmap_size = Log2HashmapSize(config),
                                     .n_features_per_level = settings.n_features_per_level,
                                     .finest_resolution = FinestResolution(config),
                                     .n_doublings = EncodingDoublings(config, geometry.n_levels)}),
          .box = geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1))),
          .density_shift = std::log(geometry.box.Size().x / settings.initial_density),
          .contraction = ContractionOf(config),
          .inner_box = geometry.box,
          .frustum = geometry.frustum};
}

bool UsesDisparity(const TrainConfig& config, const SceneGeometry& geometry) {
  const Spacing spacing = Ngp(config).spacing;
  if (spacing == Spacing::kAuto) return geometry.n_levels > 1;
  return spacing == Spacing::kDisparity;
}

std::unique_ptr<TrainedModel> NewNgpProposalModel(const TrainConfig& config,
                                                  const SceneGeometry& geometry,
                                                  NgpEvaluationParameters proposal,
                                                  NgpEvaluationParameters field) {
  return std::make_unique<ProposalModel>(config, geometry, std::move(proposal), std::move(field));
}

bool EvaluateProposalsBy(const NewProposalField& new_field, int rays_at_once, TrainedModel* model) {
  auto* const proposals = dynamic_cast<ProposalModel*>(model);
  if (proposals == nullptr) return false;
  proposals->EvaluateBy(new_field, rays_at_once);
  return true;
}

TensorFile WithoutPrefix(const TensorFile& file, const std::string& prefix) {
  TensorFile found;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with(prefix)) found.tensors[name.substr(prefix.size())] = tensor;
  }
  return found;
}

void AddWithPrefix(const TensorFile& from, const std::string& prefix, TensorFile* file) {
  for (const auto& [name, tensor] : from.tensors) file->tensors[prefix + name] = tensor;
}

absl::StatusOr<std::unique_ptr<TrainedModel>> LoadNgpProposalModel(const TensorFile& file,
                                                                   const TrainConfig& config,
                                                                   const SceneGeometry& geometry) {
  const auto read = [&](const TensorFile& from, const TrainConfig& as) {
    return ReadNgpEvaluationParameters(from, ProposalSceneNetwork(as, geometry).shape);
  };
  NERF_ASSIGN_OR_RETURN(NgpEvaluationParameters proposal,
                        read(WithoutPrefix(file, kProposalPrefix), NgpProposalConfig(config)));
  NERF_ASSIGN_OR_RETURN(NgpEvaluationParameters field, read(file, config));
  return NewNgpProposalModel(config, geometry, std::move(proposal), std::move(field));
}

}  // namespace nerf
