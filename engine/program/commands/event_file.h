#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nerf {

// The file that TensorBoard reads: records of a length, its checksum, an Event message and that
// one's checksum. Source: tensorflow/core/util/event.proto, tensorflow/core/lib/io/record_writer.h.

// TensorBoard reads the files of a folder with "tfevents" in their name.
inline constexpr char kEventFile[] = "events.out.tfevents.nerf-engine";

// The first record of a file. wall_seconds: since 1970.
std::string EventFileHead(double wall_seconds);

// One value of the curve `tag`, "progress/loss".
std::string ScalarRecord(double wall_seconds, int64_t step, std::string_view tag, float value);

// CRC-32 of Castagnoli's polynomial.
uint32_t Crc32c(std::string_view bytes);

}  // namespace nerf
