#include <fmt/format.h>

#include "common/messages/deterministic_bytes.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/resources/request_check.h"

namespace nerf {
namespace {

class RenderPolicy : public KindPolicy {
 public:
  RenderPolicy()
      : KindPolicy({.kind = JobKind::kRender,
                    .name = "RENDER",
                    .id_prefix = "r",
                    .has_part_leases = true}) {}

  absl::Status CheckSpec(const JobSpec& spec, bool /*validate_only*/) const override {
    RequestCheck check;
    check.Require(spec.model.source.project == spec.project, "job.render.source",
                  "must be of the same project");
    const uint32_t n_frames = FramesOf(spec.render.path());
    check.Require(n_frames >= 1 && n_frames <= kMaxPathFrames, "job.render.path",
                  fmt::format("must have 1 to {} frames", kMaxPathFrames));
    return check.Result();
  }

  std::string FingerprintOf(const JobSpec& spec) const override {
    return FingerprintOfNames("render", spec).Add(DeterministicBytes(spec.render)).Hex();
  }

  const ModelSource* SourceOf(const JobSpec& spec) const override { return &spec.model; }

  void UseModel(const ModelSource& source, const FoundModel& found, Job& job) const override {
    job.model = ModelOfJob(kRenderFeature, source, found);
    v1::RenderSpec spec = *job.render;
    if (UsesCrop(source, found)) *spec.mutable_style()->mutable_crop() = found.crop;
    if (source.from_checkpoint) spec.set_checkpoint(CheckpointName(source.source, found.step));
    job.render = std::move(spec);
    job.render_work = NewRenderWork(*job.render);
  }

  std::string_view CapabilityOf(const Job& job) const override {
    const std::optional<uint32_t> part = NextPart(job);
    if (!part.has_value() || !IsMoviePart(job, *part)) return job.model.capability();
    return job.model.feature() == kStyleFeature ? kStyledMovieCapability : kMovieCapability;
  }

  std::string WhyNoWorker(const Job& job, const Workers& /*workers*/) const override {
    const std::string_view capability = CapabilityOf(job);
    std::string message = "no connected worker renders models of its method";
    if (capability == kMovieCapability || capability == kStyledMovieCapability) {
      message = "no connected worker has ffmpeg for the movie";
    }
    if (job.model.feature() == kRgbazFeature) {
      message += " as RGBAZ; older versions do not";
    } else if (job.model.feature() == kStyleFeature) {
      message += " with alpha, a background, a box or a panorama or as EXR; older versions do not";
    }
    return message;
  }

  bool WantsWorker(const Job& job) const override { return NextPart(job).has_value(); }

  uint32_t PartsOf(const Job& job) const override {
    return static_cast<uint32_t>(job.render_work.parts.size());
  }

  PartLease LeaseOf(const Job& job, uint32_t part) const override {
    if (part >= PartsOf(job)) return {};
    const RenderPart& leased = job.render_work.parts[part];
    return {HoldsLease(job.state) ? std::string_view(leased.worker) : "", leased.epoch};
  }

  std::vector<JobInput> InputsOf(const Job& job, const SceneRecord* /*scene*/) const override {
    std::vector<JobInput> inputs = {{ToBlobRef(job.model.blob()), "its model"}};
    for (size_t i = 0; i < job.render_work.frames.size(); ++i) {
      for (const BlobRef& image : job.render_work.frames[i].images) {
        inputs.push_back({image, fmt::format("frame {}", i)});
      }
    }
    return inputs;
  }

  void AddBlobs(const Job& job, std::vector<BlobRef>* blobs) const override {
    if (!IsFinal(job.state)) blobs->push_back(ToBlobRef(job.model.blob()));
    for (const FrameRecord& frame : job.render_work.frames) {
      blobs->insert(blobs->end(), frame.images.begin(), frame.images.end());
    }
    if (job.render_work.movie.has_value()) blobs->push_back(*job.render_work.movie);
  }
};

}  // namespace

const KindPolicy& KindPolicy::Render() {
  static const RenderPolicy policy;
  return policy;
}

}  // namespace nerf
