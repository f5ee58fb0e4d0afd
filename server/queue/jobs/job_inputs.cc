#include "server/queue/jobs/job_inputs.h"

#include <fmt/format.h>

namespace nerf {

std::string LackText(std::span<const JobInput> lacking) {
  if (lacking.empty()) return "";
  if (lacking.size() == 1) {
    return fmt::format("{} is damaged or missing on the server: upload it again", lacking[0].name);
  }
  return fmt::format(
      "{} and {} more of its files are damaged or missing on the server: upload "
      "them again",
      lacking[0].name, lacking.size() - 1);
}

}  // namespace nerf
