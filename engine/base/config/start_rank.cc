#include "engine/base/config/start_rank.h"

#include "common/counted.h"
#include "fmt/format.h"

namespace nerf {

std::string StartReason(const StartRank& chosen, size_t n_fitting, size_t n_all,
                        std::string_view noun) {
  const char* const scene = chosen.same_capture ? "trained on the same capture"
                            : chosen.same_kind  ? "trained on a scene of the same kind"
                                                : "trained on a scene of another kind";
  const std::string samples =
      chosen.n_samples > 0 ? fmt::format(" with {:.1f} M samples", chosen.n_samples / 1e6) : "";
  return fmt::format("{}{}; of {}, {} can be taken over", scene, samples, Counted(n_all, noun),
                     n_fitting);
}

}  // namespace nerf
