#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/queue/blob_ref.h"

namespace nerf {

struct Job;

// A kind of work. What all kinds share is in Job: states, lease, events, cancel, retention. To add
// a kind: its enumerator and name here, its spec and outcome as members of Job with their codec in
// server/store/record_codec.cc, and its answers to the questions below. Everything else in
// server/queue asks these questions and does not know the kinds.
enum class JobKind { kTraining };

// "TRAINING".
std::string_view JobKindName(JobKind kind);
absl::StatusOr<JobKind> ParseJobKind(std::string_view name);

// Into how many parts the job is split. Each part has a lease of its own; the job is final when
// all parts are. 1 for training.
uint32_t PartsOf(const Job& job);

// What a worker has to offer to be granted the job. For training the method.
std::string_view CapabilityOf(const Job& job);

// Every blob that the job refers to: results for as long as the job is kept, inputs until it is
// final. The collector keeps them.
std::vector<BlobRef> BlobsOf(const Job& job);

}  // namespace nerf
