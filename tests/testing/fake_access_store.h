#pragma once

#include <algorithm>

#include "common/mutex.h"
#include "server/access/access_store.h"

namespace nerf {

// Keeps tokens and keys in memory.
class FakeAccessStore final : public AccessStore {
 public:
  absl::StatusOr<StoredAccess> Load() override {
    MutexLock lock(mu_);
    return stored_;
  }
  absl::Status AddToken(const TokenRecord& token) override {
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    stored_.tokens.push_back(token);
    return absl::OkStatus();
  }
  absl::Status DeleteToken(const std::string& id) override {
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    std::erase_if(stored_.tokens, [&](const TokenRecord& token) { return token.id == id; });
    return absl::OkStatus();
  }
  absl::Status PutWorkerKey(const WorkerKeyRecord& key) override {
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    std::erase_if(stored_.worker_keys,
                  [&](const WorkerKeyRecord& old) { return old.worker == key.worker; });
    stored_.worker_keys.push_back(key);
    return absl::OkStatus();
  }
  absl::Status DeleteWorkerKey(const std::string& worker) override {
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    std::erase_if(stored_.worker_keys,
                  [&](const WorkerKeyRecord& old) { return old.worker == worker; });
    return absl::OkStatus();
  }

  // What every later change returns.
  void FailWith(const absl::Status& error) {
    MutexLock lock(mu_);
    error_ = error;
  }

 private:
  Mutex mu_;
  StoredAccess stored_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
