#include "server/queue/jobs/model_source.h"

#include <fmt/format.h>

namespace nerf {

std::string ModelCapability(std::string_view work, std::string_view feature,
                            std::string_view method) {
  return fmt::format("{}{}{}/{}", work, feature.empty() ? "" : "+", feature, method);
}

}  // namespace nerf
