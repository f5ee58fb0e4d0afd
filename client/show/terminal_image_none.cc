// Stands in for terminal_image_chafa.cc in builds without libchafa.
#include "client/show/terminal_image.h"
#include "common/error_reason.h"

namespace nerf {

absl::StatusOr<std::string> TerminalImage(const ImageU8& /*image*/, int /*columns*/, int /*rows*/,
                                          const std::vector<std::string>& /*environment*/) {
  return WithReason(absl::UnimplementedError("this nerfctl was built without libchafa"),
                    reason::kFeatureNotBuilt);
}

}  // namespace nerf
