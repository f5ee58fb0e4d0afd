#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/queue/jobs/render_work.h"
#include "server/store/record_io.h"

namespace nerf {

// Records of render jobs, as parts of those of record_codec.h. Errors: as there.

std::string EncodeRender(const RenderSpec& render);
absl::Status DecodeRender(std::string_view record, RenderSpec* render);

// Of each part the worker, the epoch and whether it is done; of each stored frame the index, the
// depth's scale and the images.
void PutRenderWork(RecordWriter& writer, const RenderWork& work);
void GetRenderWork(RecordReader& reader, const RenderSpec& render, RenderWork* work);

}  // namespace nerf
