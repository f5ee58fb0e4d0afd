#include <png.h>

#include <bit>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/scene/pictures/image_codecs.h"

namespace nerf {
namespace {

// libpng reports errors by longjmp. So functions with setjmp have no objects with destructors and
// modify no local variables after it; their callers own the objects.
struct PngError {
  char message[160] = "";
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* error = static_cast<PngError*>(png_get_error_ptr(png));
  std::strncpy(error->message, message, sizeof(error->message) - 1);
  png_longjmp(png, 1);
}

// Warnings concern ancillary chunks, which we do not use.
void OnWarning(png_structp, png_const_charp) {}

struct PngReader {
  png_structp png = nullptr;
  png_infop header = nullptr;
  PngError error;
  const char* next = nullptr;
  const char* end = nullptr;

  ~PngReader() { png_destroy_read_struct(&png, &header, nullptr); }
};

void ReadBytes(png_structp png, png_bytep out, size_t size) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > static_cast<size_t>(reader->end - reader->next)) {
    png_error(png, "file is cut off");
  }
  std::memcpy(out, reader->next, size);
  reader->next += size;
}

// Reads up to the pixels.
void ReadHeader(PngReader* reader, const ImageHeader& expected) {
  png_structp png = reader->png;
  png_set_user_limits(png, static_cast<png_uint_32>(expected.width),
                      static_cast<png_uint_32>(expected.height));
  png_set_chunk_cache_max(png, 128);
  png_set_chunk_malloc_max(png, 4 << 20);
  // Ignore all ancillary chunks except tRNS: they must neither change pixels nor cost time.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_read_fn(png, reader, ReadBytes);
  png_read_info(png, reader->header);
}

// Starts decoding. Fails unless the rows will have the expected format; returns a row's bytes.
size_t CheckRows(PngReader* reader, const ImageHeader& expected, int n_channels, int bit_depth) {
  png_structp png = reader->png;
  png_set_interlace_handling(png);
  png_read_update_info(png, reader->header);
  if (png_get_image_width(png, reader->header) != static_cast<png_uint_32>(expected.width) ||
      png_get_image_height(png, reader->header) != static_cast<png_uint_32>(expected.height) ||
      png_get_channels(png, reader->header) != n_channels ||
      png_get_bit_depth(png, reader->header) != bit_depth) {
    png_error(png, "header and pixels disagree");
  }
  return png_get_rowbytes(png, reader->header);
}

// Reads up to the pixels and requests 8-bit RGB or RGBA. Returns the bytes of an output row, 0 on
// error.
size_t StartReading(PngReader* reader, const ImageHeader& expected) {
  if (setjmp(png_jmpbuf(reader->png)) != 0) return 0;
  ReadHeader(reader, expected);
  png_set_scale_16(reader->png);
  png_set_expand(reader->png);  // palette, 1-4 bit gray and tRNS
  png_set_gray_to_rgb(reader->png);
  return CheckRows(reader, expected, expected.n_channels, 8);
}

// The same for 16-bit gray in native byte order; any other image is an error.
size_t StartReadingGray16(PngReader* reader, const ImageHeader& expected) {
  if (setjmp(png_jmpbuf(reader->png)) != 0) return 0;
  ReadHeader(reader, expected);
  if (png_get_color_type(reader->png, reader->header) != PNG_COLOR_TYPE_GRAY ||
      png_get_bit_depth(reader->png, reader->header) != 16) {
    png_error(reader->png, "not 16-bit gray");
  }
  if (std::endian::native == std::endian::little) png_set_swap(reader->png);
  return CheckRows(reader, expected, 1, 16);
}

// Initializes a reader of `bytes`. False if out of memory.
bool Open(std::string_view bytes, PngReader* reader) {
  reader->next = bytes.data();
  reader->end = bytes.data() + bytes.size();
  reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader->error, OnError, OnWarning);
  if (reader->png != nullptr) reader->header = png_create_info_struct(reader->png);
  return reader->header != nullptr;
}

absl::Status Damaged(const PngReader& reader) {
  return absl::InvalidArgumentError(absl::StrCat("PNG is damaged: ", reader.error.message));
}

bool ReadRows(PngReader* reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader->png)) != 0) return false;
  png_read_image(reader->png, rows);
  png_read_end(reader->png, nullptr);
  return true;
}

struct PngWriter {
  png_structp png = nullptr;
  png_infop header = nullptr;
  PngError error;
  std::string bytes;

  ~PngWriter() { png_destroy_write_struct(&png, &header); }
};

void WriteBytes(png_structp png, png_bytep bytes, size_t size) {
  static_cast<PngWriter*>(png_get_io_ptr(png))
      ->bytes.append(reinterpret_cast<const char*>(bytes), size);
}

bool WriteRows(PngWriter* writer, int width, int height, int color_type, int bit_depth,
               const uint8_t* pixels, size_t row_bytes, const std::stop_token& stop,
               png_textp xmp) {
  if (setjmp(png_jmpbuf(writer->png)) != 0) return false;
  png_structp png = writer->png;
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  png_set_write_fn(png, writer, WriteBytes, nullptr);
  // Level 4 takes a third of the time of zlib's default for a few percent more bytes.
  png_set_compression_level(png, 4);
  png_set_IHDR(png, writer->header, static_cast<png_uint_32>(width),
               static_cast<png_uint_32>(height), bit_depth, color_type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (xmp != nullptr) png_set_text(png, writer->header, xmp, 1);
  png_write_info(png, writer->header);
  if (bit_depth == 16 && std::endian::native == std::endian::little) png_set_swap(png);
  for (int y = 0; y < height; ++y) {
    if (stop.stop_requested()) return false;
    png_write_row(png, pixels + static_cast<size_t>(y) * row_bytes);
  }
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

absl::StatusOr<ImageU8> DecodePng(std::string_view bytes, const ImageHeader& header) {
  PngReader reader;
  if (!Open(bytes, &reader)) return absl::ResourceExhaustedError("memory for a PNG reader");
  const size_t row_bytes = StartReading(&reader, header);
  if (row_bytes == 0) return Damaged(reader);
  ImageU8 image;
  image.width = header.width;
  image.height = header.height;
  image.n_channels = header.n_channels;
  image.pixels.resize(row_bytes * static_cast<size_t>(header.height));
  std::vector<png_bytep> rows(static_cast<size_t>(header.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = image.pixels.data() + y * row_bytes;
  if (!ReadRows(&reader, rows.data())) return Damaged(reader);
  return image;
}

absl::StatusOr<GrayImage16> DecodePngGray16(std::string_view bytes, const ImageHeader& header) {
  PngReader reader;
  if (!Open(bytes, &reader)) return absl::ResourceExhaustedError("memory for a PNG reader");
  if (StartReadingGray16(&reader, header) == 0) return Damaged(reader);
  GrayImage16 image{header.width, header.height, {}};
  const auto width = static_cast<size_t>(header.width);
  image.pixels.resize(width * static_cast<size_t>(header.height));
  std::vector<png_bytep> rows(static_cast<size_t>(header.height));
  for (size_t y = 0; y < rows.size(); ++y) {
    rows[y] = reinterpret_cast<png_bytep>(image.pixels.data() + y * width);
  }
  if (!ReadRows(&reader, rows.data())) return Damaged(reader);
  return image;
}

absl::StatusOr<std::string> EncodePngRows(int width, int height, int n_channels, int bit_depth,
                                          const uint8_t* pixels, const std::stop_token& stop,
                                          const std::string& xmp) {
  PngWriter writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer.error, OnError, OnWarning);
  if (writer.png != nullptr) writer.header = png_create_info_struct(writer.png);
  if (writer.header == nullptr) return absl::ResourceExhaustedError("memory for a PNG writer");
  const int color_type = n_channels == 1   ? PNG_COLOR_TYPE_GRAY
                         : n_channels == 3 ? PNG_COLOR_TYPE_RGB
                                           : PNG_COLOR_TYPE_RGB_ALPHA;
  const size_t row_bytes =
      static_cast<size_t>(width) * static_cast<size_t>(n_channels) * (bit_depth / 8);
  // libpng copies the text.
  std::string key = "XML:com.adobe.xmp", packet = xmp, none;
  png_text text = {};
  text.compression = PNG_ITXT_COMPRESSION_NONE;
  text.key = key.data();
  text.text = packet.data();
  text.itxt_length = packet.size();
  text.lang = text.lang_key = none.data();
  if (!WriteRows(&writer, width, height, color_type, bit_depth, pixels, row_bytes, stop,
                 xmp.empty() ? nullptr : &text)) {
    if (stop.stop_requested()) return absl::CancelledError("the picture is not wanted any more");
    return absl::InternalError(absl::StrCat("PNG encoder: ", writer.error.message));
  }
  return std::move(writer.bytes);
}

}  // namespace nerf
