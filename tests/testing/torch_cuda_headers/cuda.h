#pragma once

// Replaces the CUDA driver's header, of which LibTorch's headers use nothing.
