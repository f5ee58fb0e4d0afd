#pragma once

#include <memory>
#include <span>
#include <string>

namespace prometheus {
class Collectable;
}

namespace nerf {

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// What Prometheus reads at /metrics: the families of all sources as they are now.
std::string MetricsText(std::span<const std::shared_ptr<prometheus::Collectable>> sources);

}  // namespace nerf
