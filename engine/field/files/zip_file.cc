#include "engine/field/files/zip_file.h"

#include <zlib.h>

#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxZipFiles = 0xfffe, kMaxZipName = 0xffff;
constexpr uint64_t kZipFileBytes = 30, kZipDirectoryBytes = 46;  // without the name
constexpr uint16_t kZipVersion = 20, kUtf8Names = 1 << 11;
constexpr uint16_t kFirstDay = (1 << 5) | 1;  // of 1980

void PutZipNumber(uint64_t number, int n_bytes, std::string* out) {
  for (int i = 0; i < n_bytes; ++i) out->push_back(static_cast<char>(number >> (8 * i)));
}

// What records of files and of the directory have in common.
void PutZipFields(uint32_t crc, uint64_t byte_size, size_t name_size, std::string* out) {
  PutZipNumber(kZipVersion, 2, out);
  PutZipNumber(kUtf8Names, 2, out);
  PutZipNumber(0, 2, out);  // stored
  PutZipNumber(0, 2, out);  // time
  PutZipNumber(kFirstDay, 2, out);
  PutZipNumber(crc, 4, out);
  PutZipNumber(byte_size, 4, out);  // compressed
  PutZipNumber(byte_size, 4, out);
  PutZipNumber(name_size, 2, out);
  PutZipNumber(0, 2, out);  // extra fields
}

}  // namespace

std::string ZipDirectory::Add(const std::string& name, std::string_view bytes, uint64_t offset) {
  const uint64_t crc =
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  entries_.push_back({name, static_cast<uint32_t>(crc), static_cast<uint32_t>(bytes.size()),
                      static_cast<uint32_t>(offset)});
  std::string head = "PK\x03\x04";
  PutZipFields(entries_.back().crc, bytes.size(), name.size(), &head);
  return head + name;
}

std::string ZipDirectory::End(uint64_t offset) const {
  std::string directory;
  for (const Entry& entry : entries_) {
    directory += "PK\x01\x02";
    PutZipNumber(kZipVersion, 2, &directory);  // made by
    PutZipFields(entry.crc, entry.byte_size, entry.name.size(), &directory);
    directory.append(2 + 2 + 2 + 4, '\0');  // no comment, disk 0, attributes
    PutZipNumber(entry.offset, 4, &directory);
    directory += entry.name;
  }
  std::string end = "PK\x05\x06";
  PutZipNumber(0, 4, &end);  // disks
  PutZipNumber(entries_.size(), 2, &end);
  PutZipNumber(entries_.size(), 2, &end);
  PutZipNumber(directory.size(), 4, &end);
  PutZipNumber(offset, 4, &end);
  PutZipNumber(0, 2, &end);  // comment
  return directory + end;
}

size_t ZipDirectory::byte_size() const {
  size_t all = 0;
  for (const Entry& entry : entries_) all += kZipDirectoryBytes + entry.name.size();
  return all;
}

std::string ZipOf(std::span<const std::pair<std::string, std::string>> files) {
  std::string archive;
  ZipDirectory directory;
  for (const auto& [name, bytes] : files) {
    archive += directory.Add(name, bytes, archive.size());
    archive += bytes;
  }
  return archive + directory.End(archive.size());
}

absl::StatusOr<ZipFile> ZipFile::Create(const std::string& path) {
  NERF_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  return ZipFile(std::move(file));
}

absl::Status ZipFile::Add(const std::string& name, std::string_view bytes) {
  if (name.size() > kMaxZipName) {
    return absl::InvalidArgumentError("a file's name is too long for a .zip: " +
                                      name.substr(0, 64));
  }
  // With room for the directory.
  const uint64_t all = file_.byte_size() + bytes.size() + kZipFileBytes + name.size() +
                       directory_.byte_size() + kZipDirectoryBytes + name.size();
  if (all > kMaxBytes || directory_.n_files() >= kMaxZipFiles) {
    return absl::ResourceExhaustedError(
        "a .zip holds 4 GB and 65534 files at most; take fewer or smaller views, or a folder");
  }
  NERF_RETURN_IF_ERROR(file_.Append(directory_.Add(name, bytes, file_.byte_size())));
  return file_.Append(bytes);
}

absl::Status ZipFile::Commit() {
  NERF_RETURN_IF_ERROR(file_.Append(directory_.End(file_.byte_size())));
  return file_.Commit();
}

}  // namespace nerf
