#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace nerf {

// What somebody may do in a project. Each method's policy lists the roles that may call it.
enum class Role : unsigned {
  kViewer = 1,  // reads, watches, renders
  kEditor = 2,  // and creates, changes, uploads
  kWorker = 4,  // acts as a worker, for every project
  kAdmin = 8    // as an editor, and makes tokens
};
using Roles = unsigned;  // a set of them, joined by |

// A role in one project or in all. With a resource it is valid for that resource, and what is below
// it, alone: a share link is a viewer of one model.
struct Grant {
  Role role = Role::kViewer;
  std::string project = {};   // empty: every project
  std::string resource = {};  // "projects/p/models/m"; empty: everything in the project
};

// Whom a call is from, and what that may do.
struct Principal {
  std::string name;  // "tokens/t-1", "admin.token", "jwt/alice": for logs
  std::vector<Grant> grants;
  absl::Time expire_time = absl::InfiniteFuture();
};

// Workers read and write blobs of every project. Their reports say which project a blob belongs to.
inline bool IsWorker(const Principal& principal) {
  return std::any_of(principal.grants.begin(), principal.grants.end(),
                     [](const Grant& grant) { return grant.role == Role::kWorker; });
}

// What a call reads or changes. An empty project means the server as a whole.
struct ResourceRef {
  std::string project;
  std::string name;  // as in the request

  bool operator==(const ResourceRef&) const = default;
};

}  // namespace nerf
