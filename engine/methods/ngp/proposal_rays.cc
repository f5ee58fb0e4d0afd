#include "engine/methods/ngp/proposal_rays.h"

#include "engine/base/philox.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/color_loss.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/distortion.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

// Key of the random numbers of the field's samples, apart from those of the rays' jitters.
constexpr uint64_t kSampleKey = uint64_t{0x70726f70} << 32;

}  // namespace

void ProposalRows::Resize(int rays, int per_ray) {
  n_rays = rays;
  n_per_ray = per_ray;
  const size_t n = static_cast<size_t>(rays) * per_ray;
  edges.resize(n + rays);
  for (std::vector<float>* column : {&deltas, &sigmas, &alphas, &weights, &grad_sigmas})
    column->resize(n);
  for (std::vector<Vec3>* column : {&unit, &colors, &grad_colors}) column->resize(n);
  ray_of.resize(n);
  for (size_t i = 0; i < n; ++i) ray_of[i] = static_cast<int>(i) / per_ray;
}

void ProposalRows::Place(const NgpNetwork& network, const Ray* rays, const RaySpan* spans) {
  for (int row = 0; row < size(); ++row) {
    const int r = ray_of[row];
    const float* const edge = edges.data() + row + r;
    unit[row] = rays[r].origin + rays[r].direction * spans[r].DistanceAt(Middle(row));
    deltas[row] = spans[r].DistanceAt(edge[1]) - spans[r].DistanceAt(edge[0]);
  }
  ToEncodedCube(network, size(), unit.data(), unit.data());
}

void ProposalRows::Weigh(bool has_end) {
  kernels::cpu::Alphas(
      {.n = size(), .sigmas = sigmas.data(), .deltas = deltas.data(), .alphas = alphas.data()});
  float transmittance = 1;
  for (int row = 0; row < size(); ++row) {
    if (row % n_per_ray == 0) transmittance = 1;
    if (has_end && row % n_per_ray == n_per_ray - 1) alphas[row] = 1;
    weights[row] = kernels::CompositeForwardStep(alphas[row], &transmittance);
  }
}

bool ProposalRays::Begin(const ProposalPlan& plan, int begin, int end) {
  n_rays_ = 0;
  for (int r = begin; r < end; ++r) {
    const RaySpan span = SpanOfRay(plan.field.box, plan.batch->rays[r], plan.disparity);
    if (span.IsEmpty()) continue;
    rays_[n_rays_] = plan.batch->rays[r];
    spans_[n_rays_] = span;
    indices_[n_rays_++] = r;
  }
  const NgpSettings& settings = Ngp(*plan.config);
  proposals.Resize(n_rays_, settings.proposal_samples);
  samples.Resize(n_rays_, settings.field_samples);
  for (int r = 0; r < n_rays_; ++r)
    EvenEdges(proposals.n_per_ray, plan.batch->jitters[indices_[r]], proposals.EdgesOf(r));
  proposals.Place(plan.proposal, rays_, spans_);
  return n_rays_ > 0;
}

void ProposalRays::Resample(const ProposalPlan& plan) {
  proposals.Weigh(Ngp(*plan.config).learned_background != 0);
  for (int r = 0; r < n_rays_; ++r) {
    const auto words = RandomWords(kSampleKey + plan.config->seed, RandomUse::kRayJitter,
                                   plan.batch->step, static_cast<uint32_t>(indices_[r]));
    ResampledEdges(proposals.n_per_ray, proposals.EdgesOf(r),
                   proposals.weights.data() + r * proposals.n_per_ray, plan.exponent,
                   samples.n_per_ray, UniformFloat(words[0]), samples.EdgesOf(r));
  }
  samples.Place(plan.field, rays_, spans_);
}

void ProposalRays::FindGradients(const ProposalPlan& plan, double* loss, double* squared_error) {
  samples.Weigh(Ngp(*plan.config).learned_background != 0);
  for (int r = 0; r < n_rays_; ++r) {
    LossOfRay(plan, r, loss, squared_error);
    ProposalLossOfRay(plan, r);
  }
}

// Loss of a ray's color and distortion, and the gradients of its samples.
void ProposalRays::LossOfRay(const ProposalPlan& plan, int r, double* loss_sum,
                             double* squared_error) {
  const RayBatch& batch = *plan.batch;
  const int begin = r * samples.n_per_ray, end = begin + samples.n_per_ray;
  const int index = indices_[r];
  Vec3 color, grad_color;
  float transmittance = 1;
  kernels::Distortion distortion, before;
  for (int row = begin; row < end; ++row) {
    color = color + samples.colors[row] * samples.weights[row];
    distortion.Add(samples.weights[row], samples.Middle(row), samples.Length(row));
    transmittance *= 1 - samples.alphas[row];
  }
  color = color + batch.backgrounds[index] * transmittance;
  const kernels::LossShape shape = LossShapeOf(*plan.config);
  const float scale = plan.config->loss_scale / (3.0f * batch.n_rays);
  const float weight = batch.weights.empty() ? 1.0f : batch.weights[index];
  for (int channel = 0; channel < 3; ++channel) {
    const float residual = color[channel] - batch.targets[index][channel];
    const kernels::ChannelLoss loss = kernels::LossOfResidual(shape, residual);
    grad_color[channel] = scale * weight * loss.derivative;
    *loss_sum += weight * loss.value / 3.0;
    *squared_error += static_cast<double>(weight) * residual * residual / 3.0;
  }
  *loss_sum += static_cast<double>(batch.distortion) * distortion.value;
  const float distortion_scale = batch.distortion * plan.config->loss_scale / batch.n_rays;
  float behind = Dot(grad_color, color) + 2 * distortion_scale * distortion.value;
  transmittance = 1;
  for (int row = begin; row < end; ++row) {
    const float w = samples.weights[row], s = samples.Middle(row), l = samples.Length(row);
    const float grad_weight =
        Dot(grad_color, samples.colors[row]) +
        distortion_scale * kernels::DistortionGradient(distortion, before, w, s, l);
    before.Add(w, s, l);
    samples.grad_sigmas[row] = kernels::CompositeBackwardStep(
        grad_weight, samples.alphas[row], w, samples.deltas[row], &transmittance, &behind);
    samples.grad_colors[row] = grad_color * w;
  }
}

// The gradients of the proposal's densities. Its loss is not part of the step's, which is that of
// the picture.
void ProposalRays::ProposalLossOfRay(const ProposalPlan& plan, int r) {
  const int n = proposals.n_per_ray, begin = r * n;
  grad_weights_.resize(n);
  InterlevelLoss(n, proposals.EdgesOf(r), proposals.weights.data() + begin, samples.n_per_ray,
                 samples.EdgesOf(r), samples.weights.data() + r * samples.n_per_ray,
                 grad_weights_.data());
  const float scale = plan.config->loss_scale / static_cast<float>(plan.batch->n_rays);
  float behind = 0, transmittance = 1;
  for (int i = 0; i < n; ++i) {
    grad_weights_[i] *= scale;
    behind += grad_weights_[i] * proposals.weights[begin + i];
  }
  for (int i = 0; i < n; ++i) {
    const int row = begin + i;
    proposals.grad_sigmas[row] = kernels::CompositeBackwardStep(
        grad_weights_[i], proposals.alphas[row], proposals.weights[row], proposals.deltas[row],
        &transmittance, &behind);
  }
}

}  // namespace nerf
