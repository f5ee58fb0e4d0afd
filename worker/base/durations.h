#pragma once

#include <google/protobuf/duration.pb.h>

#include "absl/time/time.h"

namespace nerf {

inline absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace nerf
