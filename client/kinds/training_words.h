#pragma once

#include <string>

#include "absl/time/time.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

// What a training says to people, beside what jobs of every kind do.

// "12400/20000" with a budget in steps, else "12400 (62%)"; empty before the first progress.
std::string StepText(const v1::Job& job);
// "test PSNR 33.12 dB", over all test views, else "preview PSNR 30.20 dB at step 1200"; "" without
// either.
std::string PsnrText(const v1::Job& job);

// "2992x5318, trained at 918x1632, evaluated at 768x1365": the largest picture and what was
// reduced; empty while it is not known.
std::string PicturesText(const v1::Job& job);
// Whether its pictures were reduced.
bool ArePicturesReduced(const v1::Job& job);

// Why its views, which take `expected`, are slow; empty where they are not, or it is not known.
std::string SlownessOf(const v1::Job& job, absl::Duration expected);

}  // namespace nerf
