#pragma once

// Stands in for the CUDA driver's header, of which LibTorch's headers use nothing.
