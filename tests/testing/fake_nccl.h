#pragma once

// How the NCCL of fake_nccl.cc behaves, which exchanges arrays in host memory among threads.
namespace nerf::fake_nccl {

// The calling thread's later exchanges never end, as if another rank were lost.
void LoseOtherRanks();
// Ranks do not connect: what NCCL says of two ranks on one device.
void RefuseToConnect(bool refuse);
// Ranks connect, but their exchanges fail, as where a sandbox forbids what these open.
void RefuseToExchange(bool refuse);
// Communicators that were made and not yet aborted.
int OpenCommunicators();

}  // namespace nerf::fake_nccl
