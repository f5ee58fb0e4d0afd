#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/rpc/blob_client.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

class Session;

// OK if `out`, of --out, can take what a job makes: it is a file, if it is no folder and ends as
// what jobs make, in a folder that is there; else a folder, which is made. Errors: InvalidArgument.
absl::Status CheckJobOut(const std::string& out);

// What a job has made, as files here.
class JobFiles {
 public:
  // `out` as CheckJobOut takes it, or a file, whatever its ending. The session outlives this.
  JobFiles(Session& session, std::string out, bool is_file = false);

  const std::string& out() const { return out_; }
  // OK unless `out` is one file and the job makes several, or one of another ending. Errors:
  // InvalidArgument.
  absl::Status Check(const v1::Job& job) const;
  // Fetches what is there and was not fetched yet, of a job as watches send it: at its end, and
  // before that of kinds that make files meanwhile. Errors: as Check; those of the calls.
  absl::Status Fetch(const v1::Job& job);
  // The files that are here, at the job's end in their order.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  bool IsFile(const v1::Job& job) const;

  Session& session_;
  const std::string out_;
  const bool is_file_;  // whatever its ending
  std::set<std::string> fetched_;
  std::vector<std::string> paths_;
  SteadyTime looked_at_;  // when it was looked for new files last
};

}  // namespace nerf
