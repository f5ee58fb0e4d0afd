#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/protocol/export_lines.h"
#include "nerf/v1/export_job.pb.h"
#include "worker/engine/engine_program.h"

namespace nerf {

// Runs `nerf-engine export` in a sandbox: makes `product` of the model file `model` in the folder
// `out`, which exists; the product's path becomes a file beside it. `done.file` is in it; it may
// have any name, since the engine reads strangers' files. Errors: what the engine says of the model
// or of the product; those of FailureOfProgram, WORKER_EXHAUSTED also before the work where the
// file will not fit. Blocks. `on_progress` is called on this thread.
absl::StatusOr<protocol::ExportDone> ExportInSandbox(
    const EngineProgramOptions& options, const std::string& model, const v1::ExportSpec& product,
    const std::string& out, const std::function<void(const v1::ExportProgress&)>& on_progress,
    const std::stop_token& stop);

}  // namespace nerf
