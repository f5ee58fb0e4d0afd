#pragma once

namespace nerf {

// Metadata of the page's calls, within nerfd: the IP address of their client.
inline constexpr char kWebPeerMetadata[] = "nerf-web-peer";

}  // namespace nerf
