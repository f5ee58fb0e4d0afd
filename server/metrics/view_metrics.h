#pragma once

#include <cstddef>

namespace prometheus {
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace nerf {

// Metrics of live views. Thread-safe.
class ViewMetrics {
 public:
  explicit ViewMetrics(prometheus::Registry& registry);

  void SetOpen(size_t n_views);
  // A frame was sent, `seconds` after the update that it shows or, for a further frame of it, after
  // its order.
  void FrameSent(bool moving, double seconds);

 private:
  prometheus::Gauge& open_;
  prometheus::Histogram& moving_;
  prometheus::Histogram& still_;
};

}  // namespace nerf
