#pragma once

#include <string>

#include "absl/time/time.h"
#include "client/show/progress_display.h"
#include "nerf/v1/training_service.pb.h"

namespace nerf {

// What a job's progress says to people, and its line in the display of a watch.

// The line of a job whose progress came `age` ago, which its ETA counts down.
ProgressLine ProgressOf(const v1::TrainingJob& job, absl::Duration age = absl::ZeroDuration());

// True while its test views are evaluated: minutes may then pass without a message.
bool IsEvaluating(const v1::TrainingJob& job);

// "2992x5318, trained at 918x1632, evaluated at 768x1365": the largest picture and what was
// reduced; empty while it is not known.
std::string PicturesText(const v1::TrainingJob& job);
// Whether its pictures were reduced.
bool ArePicturesReduced(const v1::TrainingJob& job);

// Why its views, which take `expected`, are slow; empty where they are not, or it is not known.
std::string SlownessOf(const v1::TrainingJob& job, absl::Duration expected);

}  // namespace nerf
