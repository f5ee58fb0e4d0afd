#pragma once

#include <memory>

namespace prometheus {
class Collectable;
}

namespace nerf {

// The process_* metrics of this process, read from /proc at each scrape.
std::shared_ptr<prometheus::Collectable> MakeProcessCollector();

}  // namespace nerf
