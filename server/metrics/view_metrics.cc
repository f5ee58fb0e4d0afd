#include "server/metrics/view_metrics.h"

#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace nerf {
namespace {

prometheus::Gauge& OpenViews(prometheus::Registry& registry) {
  return prometheus::BuildGauge()
      .Name("nerfd_live_views")
      .Help("Open live views.")
      .Register(registry)
      .Add({});
}

prometheus::Histogram& FrameSeconds(prometheus::Registry& registry, const char* camera) {
  const prometheus::Histogram::BucketBoundaries bounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.125,
                                                          0.25, 0.5,   1,    2.5,   5,   10};
  return prometheus::BuildHistogram()
      .Name("nerfd_live_view_frame_seconds")
      .Help("Time from an update of a live view to a frame that shows it.")
      .Register(registry)
      .Add({{"camera", camera}}, bounds);
}

}  // namespace

ViewMetrics::ViewMetrics(prometheus::Registry& registry)
    : open_(OpenViews(registry)),
      moving_(FrameSeconds(registry, "moving")),
      still_(FrameSeconds(registry, "still")) {}

void ViewMetrics::SetOpen(size_t n_views) { open_.Set(static_cast<double>(n_views)); }

void ViewMetrics::FrameSent(bool moving, double seconds) {
  (moving ? moving_ : still_).Observe(seconds);
}

}  // namespace nerf
