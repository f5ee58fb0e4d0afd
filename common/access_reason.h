#pragma once

#include <string_view>

// Reasons of refused callers; the others are in error_reason.h.
namespace nerf::reason {
inline constexpr std::string_view kTokenExpired = "TOKEN_EXPIRED";
inline constexpr std::string_view kAccessDenied = "ACCESS_DENIED";
inline constexpr std::string_view kQuotaExceeded = "QUOTA_EXCEEDED";
inline constexpr std::string_view kWorkerKeyMismatch = "WORKER_KEY_MISMATCH";
}  // namespace nerf::reason
