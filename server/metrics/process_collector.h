#pragma once

#include <prometheus/collectable.h>

#include <string>
#include <vector>

namespace nerf {

// The process_* metrics of this process, read from /proc at each scrape.
class ProcessCollector final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace nerf
