#pragma once

#include <span>
#include <string_view>

#include "server/access/principal.h"

namespace nerf {

// What a method's resources are.
enum class Scope {
  kCaller,   // none: every principal may call it
  kProject,  // those that its fields name
  kServer    // the server as a whole: needs a role in every project
};

// What an empty field means.
enum class EmptyField { kDefaultProject, kEveryProject, kNothing };

// A field of a request that holds a resource's name, such as "job.training.scene".
struct ResourceField {
  std::string_view path;
  EmptyField empty = EmptyField::kNothing;
  std::string_view keywords[2] = {};  // values that name no resource
};

inline constexpr size_t kMaxResourceFields = 11;

// Who may call a method: principals with one of `roles` for each resource that the request names.
struct MethodPolicy {
  std::string_view method;  // "package.Service/Method"
  Roles roles = 0;
  Scope scope = Scope::kProject;
  bool is_change = false;  // logged with its principal
  ResourceField fields[kMaxResourceFields] = {};
  // A field with a name that is logged, too, and that nobody's rights depend on.
  std::string_view logged_field = {};
};

// nullptr for methods without a policy, which nobody may call.
const MethodPolicy* FindMethodPolicy(std::string_view method);

// All of them, for tests.
std::span<const MethodPolicy> MethodPolicies();

// "projects/p/..." is of p; "blobs/..." and "uploads/..." are of the default project. Any other
// name, which no handler accepts, has an empty project and is nobody's but an all-project role's.
ResourceRef ResourceOf(std::string_view name);

}  // namespace nerf
