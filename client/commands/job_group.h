#pragma once

#include <string>
#include <vector>

#include "client/commands/commands.h"

namespace nerf {

class Session;

// A verb of one job, such as show.
struct JobVerb {
  const char* name;
  const char* text;
  int (*run)(Session&, const std::string& job);
};

// The commands about one kind of jobs: ls, `verbs` and rm.
struct JobGroup {
  std::string noun;     // "pose-job"
  std::string text;     // of the group
  std::string example;  // id of a job
  std::vector<JobVerb> verbs;
  int (*list)(Session&, int limit);
  int (*remove)(Session&, const std::vector<std::string>& jobs);
  std::string remove_text;
};

// Returns the group's command, for more verbs.
CLI::App* AddJobGroup(CLI::App& app, const JobGroup& group, Command* selected);

}  // namespace nerf
