#pragma once

#include <string>
#include <vector>

namespace nerf::autograd {

// LibTorch's own profile of the first steps of a training: each operation, forward and backward, on
// the thread that runs the steps, with the phases that the steps name (RECORD_USER_SCOPE). Order:
// Start, then BeginStep and EndStep around each step, ToJson. Used from one thread.
class OpProfile {
 public:
  OpProfile() = default;
  ~OpProfile();
  OpProfile(const OpProfile&) = delete;
  OpProfile& operator=(const OpProfile&) = delete;

  // Records the next n_steps steps. Recorded operations take a few microseconds more.
  void Start(int n_steps) { n_left_ = n_steps; }
  void BeginStep();
  void EndStep();

  // The operations of the recorded steps as an object of Chrome's trace event format, in the order
  // of their begin: names, microseconds from the first one on, and the inputs' shapes.
  std::string ToJson() const;

 private:
  struct Event {
    std::string name, shapes;
    const char* category;
    unsigned long long thread;
    double begin, microseconds;
  };

  int n_left_ = 0;  // steps to record
  bool recording_ = false;
  std::vector<Event> events_;
};

}  // namespace nerf::autograd
