#pragma once

#include <string>

#include "absl/time/time.h"

namespace nerf {

enum class OutputFormat { kTable, kJson, kJsonLines, kName };
enum class ProgressMode { kBar, kPlain, kJson, kNone };

// The flags that every command takes.
struct GlobalFlags {
  std::string server = "127.0.0.1:50051";
  std::string project = "default";
  OutputFormat output = OutputFormat::kTable;
  ProgressMode progress = ProgressMode::kPlain;
  bool quiet = false;
  bool no_hints = false;  // name no next commands
  bool color = false;     // on standard output
  // Of the whole command; infinite unless --timeout is given. Single calls have limits of their
  // own besides.
  absl::Duration timeout = absl::InfiniteDuration();
};

}  // namespace nerf
