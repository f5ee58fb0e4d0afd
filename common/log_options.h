#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace nerf {

// The form of log lines from now on: text (logging.h), or json with one object per line:
//   {"time":"2026-11-20T10:02:11.412Z","level":"info","program":"nerfd","message":"job created",
//    "job":"j-7f3k2c81","step":200}
// InvalidArgument for every other word. Call after InitLogging, before threads start.
absl::Status SetLogFormat(std::string_view format);

// Lines about this job, by its field `job`, name the call that made it from now on: request_id
// and trace_id are added. `project` is that of lines with a field `project`; empty for others. The
// last 4096 jobs are kept.
void NoteJobOrigin(std::string_view project, std::string_view job, std::string_view request_id,
                   std::string_view traceparent);

}  // namespace nerf
