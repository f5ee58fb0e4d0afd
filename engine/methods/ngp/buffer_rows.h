// Rows of `width` floats in a Buffer, and buffers that keep their rows when they grow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "engine/base/buffer.h"

namespace nerf {

// Sets the size of *buffer; its first n_kept elements stay.
template <typename T>
void Grow(Buffer<T>* buffer, size_t n_kept, size_t size) {
  Buffer<T> grown(size);
  if (n_kept > 0) std::memcpy(grown.data(), buffer->data(), n_kept * sizeof(T));
  *buffer = std::move(grown);
}

template <int width>
float* Row(Buffer<float>& buffer, int row) {
  return buffer.data() + size_t{width} * row;
}

template <int width>
void CopyRow(Buffer<float>* buffer, int from, int to) {
  std::copy_n(Row<width>(*buffer, from), width, Row<width>(*buffer, to));
}

}  // namespace nerf
