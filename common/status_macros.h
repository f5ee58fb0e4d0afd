#pragma once

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function with the status of `expression` (an absl::Status) unless it
// is OK. The function returns absl::Status or an absl::StatusOr.
#define NERF_RETURN_IF_ERROR(expression)                                                \
  do {                                                                                  \
    if (absl::Status nerf_status = (expression); ABSL_PREDICT_FALSE(!nerf_status.ok())) \
      return nerf_status;                                                               \
  } while (false)

// Evaluates `expression` (an absl::StatusOr<T>): returns its status from the enclosing function
// unless it is OK, else moves the value into `target`, a declaration or a variable. For a type with
// a comma use an alias or `auto`. Not for the body of an `if` without braces: it expands to more
// than one statement.
//   NERF_ASSIGN_OR_RETURN(Scene scene, ReadScene(folder));
#define NERF_ASSIGN_OR_RETURN(target, ...) \
  NERF_ASSIGN_OR_RETURN_NAMED_(NERF_JOIN_(nerf_status_or_, __LINE__), target, __VA_ARGS__)

#define NERF_ASSIGN_OR_RETURN_NAMED_(name, target, ...)                \
  auto name = (__VA_ARGS__);                                           \
  if (ABSL_PREDICT_FALSE(!name.ok())) return std::move(name).status(); \
  target = *std::move(name)
#define NERF_JOIN_(a, b) NERF_JOIN_EXPANDED_(a, b)
#define NERF_JOIN_EXPANDED_(a, b) a##b
