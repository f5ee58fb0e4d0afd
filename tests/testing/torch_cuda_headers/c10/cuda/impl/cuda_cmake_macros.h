#pragma once

// Replaces the header that a build of LibTorch with CUDA generates: LibTorch is a shared library.
#define C10_CUDA_BUILD_SHARED_LIBS
