#pragma once

#include <string>
#include <string_view>

#include "nerf/v1/admin_service.pb.h"

namespace nerf {

// What a caller may do, in words: "editor of lab, viewer of every project". Empty without a role.
std::string GrantsText(const v1::Access& access);

// Whether the caller may do in some project what `role` ("editor") may.
bool HasRole(const v1::Access& access, std::string_view role);

// The project that all of the caller's roles are in; empty if there are several, or none, or if a
// role is of every project.
std::string OnlyProject(const v1::Access& access);

}  // namespace nerf
