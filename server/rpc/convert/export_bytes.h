#pragma once

#include "nerf/v1/export_job.pb.h"
#include "server/queue/jobs/model_source.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// What is known of a file's size before it is made; 0: nothing.
struct ExportBytes {
  double expected = 0;  // ExportStatus.expected_bytes
  double max = 0;       // ExportStatus.max_bytes
};

// By the request alone, with its defaults and its box.
ExportBytes BytesOfRequest(const v1::ExportSpec& spec);

// ExportSpec.expected_bytes, by the tensors of the model that the job is of: of a viewer without a
// baked model, of cameras, and of paths through them. 0 where they or the model are not known.
double BytesOfModel(const ServiceContext& services, const ModelSource& source,
                    const v1::ExportSpec& spec);

}  // namespace nerf
