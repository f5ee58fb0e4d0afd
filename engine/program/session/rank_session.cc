#include "engine/program/session/rank_session.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/counted.h"
#include "common/files/sha256.h"
#include "common/status_macros.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/simd_path.h"
#include "engine/program/device/device.h"
#include "engine/program/session/training_methods.h"
#include "engine/train/group/open_gloo.h"
#include "engine/train/group/shared_memory_group.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kRanksMeetingTime =
    absl::Minutes(10);                                  // also for reading a large data set
constexpr absl::Duration kPatience = absl::Seconds(1);  // until a lost rank was reaped
constexpr char kFailed[] = "error ";  // a rank that cannot train says this and why

void Add(std::span<const uint8_t> bytes, Sha256* digest) {
  digest->Update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string DigestOfPictures(const TrainingSession& session) {
  Sha256 digest;
  for (size_t view = 0; view < session.scene.train.size(); ++view)
    Add(session.TrainPixels(view), &digest);
  return digest.HexDigest();
}

std::string DigestOfState(const TrainingStep& step) {
  TensorFile file;
  step.Save(&file);
  Sha256 digest;
  for (const auto& [name, tensor] : file.tensors) Add(tensor.bytes, &digest);
  return digest.HexDigest();
}

// All that must be the same on every rank, as lines "key value".
std::string Describe(const TrainingSession& session) {
  TensorFile file;
  StoreTrainState(session.state, TrainFileKind::kCheckpoint, &file);
  std::map<std::string, std::string>& values = file.metadata;
  values["version of nerf-engine"] = NERF_VERSION;
  const std::optional<int> cuda_index = CudaIndex(session.device);
  values["kind of device (--device)"] = cuda_index.has_value() ? "cuda" : "cpu";
  if (cuda_index.has_value() && session.state.config.cuda_deterministic != 0) {
    const auto device = kernels::cuda::DescribeDevice(*cuda_index);
    values["device with cuda_deterministic"] =
        fmt::format("capability {}.{} and {} multiprocessors", device.compute_capability / 10,
                    device.compute_capability % 10, device.n_multiprocessors);
  }
  values["instruction set (NERF_SIMD)"] = kernels::cpu::SimdPath();
  values["training pictures"] = DigestOfPictures(session);
  values["weights at the start"] = DigestOfState(*session.step);
  std::string lines;
  for (const auto& [key, value] : values) lines += fmt::format("{}\t{}\n", key, value);
  return lines;
}

// "key: A, rank 0 has B" for the first line that differs.
std::string Difference(std::string_view mine, std::string_view leader) {
  const auto line = [](std::string_view* text) {
    const std::string_view first = text->substr(0, text->find('\n'));
    text->remove_prefix(std::min(text->size(), first.size() + 1));
    return first;
  };
  while (!mine.empty() || !leader.empty()) {
    const std::string_view a = line(&mine), b = line(&leader);
    if (a == b) continue;
    const size_t tab = a.find('\t');
    const std::string_view key = a.empty() ? b.substr(0, b.find('\t')) : a.substr(0, tab);
    const std::string_view theirs = b.substr(std::min(b.size(), b.find('\t') + 1));
    return fmt::format("{}: {}, rank 0 has {}", key.substr(0, 64),
                       a.substr(std::min(a.size(), tab + 1)).substr(0, 64), theirs.substr(0, 64));
  }
  return "";
}

// RankProcesses gives one to each rank that it starts.
bool IsSocket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

absl::Status Usage(const std::string& message) { return absl::InvalidArgumentError(message); }

// Devices for ranks of this machine, the first of which has the one of this name.
int DevicesFrom(const std::string& device) {
  return kernels::cuda::DeviceCount() - CudaIndex(device).value_or(0);
}

absl::Status CheckCudaRanks(const RankFlags& flags, const TrainConfig& config,
                            const std::string& device) {
  if (flags.central_feed)
    return Usage(fmt::format("--feed central: ranks on {} draw their own rays", device));
  NERF_RETURN_IF_ERROR(CheckDeviceHonors(config, device));
  if (flags.share_devices && !flags.rendezvous.empty())
    return Usage("--share-devices: with --rendezvous each rank has the device that it names");
  if (flags.rank.has_value()) return absl::OkStatus();
  const int n_devices = DevicesFrom(device);
  if (flags.n_ranks > n_devices && !flags.share_devices) {
    return absl::FailedPreconditionError(fmt::format(
        "--ranks {}: from {} on there {} {}; --share-devices lets ranks share a device",
        flags.n_ranks, device, n_devices == 1 ? "is" : "are", Counted(n_devices, "device")));
  }
  RankFlags other = flags;
  for (other.rank = 1; *other.rank < std::min(flags.n_ranks, n_devices); ++*other.rank)
    NERF_RETURN_IF_ERROR(CheckDevice(DeviceOfRank(other, device)));
  return absl::OkStatus();
}

absl::StatusOr<Rendezvous> Meet(const RankFlags& flags, RankProcesses* processes) {
  if (flags.rendezvous.empty()) {
    std::vector<UniqueFd> sockets;
    if (processes != nullptr) {
      sockets = processes->TakeSockets();
    } else {
      sockets.emplace_back(RankProcesses::kSocket);
    }
    return Rendezvous(flags.rank.value_or(0), flags.n_ranks, std::move(sockets), kRanksMeetingTime);
  }
  NERF_ASSIGN_OR_RETURN(const auto address, ParseRendezvous(flags.rendezvous));
  const auto& [host, port] = address;
  if (*flags.rank == 0) return Rendezvous::Host(host, port, flags.n_ranks, kRanksMeetingTime);
  return Rendezvous::Join(host, port, *flags.rank, flags.n_ranks, kRanksMeetingTime);
}

}  // namespace

absl::Status CheckRanks(const RankFlags& flags, const TrainConfig& config,
                        const std::string& device) {
  if (flags.n_ranks == 1) {
    if (flags.rank.has_value() || !flags.rendezvous.empty())
      return Usage("--rank and --rendezvous need --ranks N");
    if (flags.central_feed) return Usage("--feed central needs --ranks N");
    if (flags.share_devices) return Usage("--share-devices needs --ranks N");
    return absl::OkStatus();
  }
  if (!flags.rendezvous.empty()) {
    if (!flags.rank.has_value()) return Usage("--rendezvous needs --rank I");
    NERF_ASSIGN_OR_RETURN(const auto address, ParseRendezvous(flags.rendezvous));
    if (flags.interface.empty() && !IsLoopback(address.first)) {
      return Usage(fmt::format(
          "--rendezvous {}: name the network interface of the ranks with --interface; what they "
          "send is not encrypted",
          flags.rendezvous));
    }
  }
  if (flags.rank.has_value() && (*flags.rank < 0 || *flags.rank >= flags.n_ranks))
    return Usage(fmt::format("--rank {}: must be below --ranks {}", *flags.rank, flags.n_ranks));
  const bool has_socket = flags.rank != 0 && IsSocket(RankProcesses::kSocket);
  if (flags.IsStarted() && !has_socket) return Usage("--rank needs --rendezvous HOST:PORT");
  NERF_RETURN_IF_ERROR(CheckRanksShare(config, device, flags.n_ranks));
  if (device != "cpu") return CheckCudaRanks(flags, config, device);
  if (flags.share_devices) return Usage("--share-devices needs --device cuda:N");
  return absl::OkStatus();
}

std::string DeviceOfRank(const RankFlags& flags, const std::string& device) {
  const std::optional<int> first = CudaIndex(device);
  if (!first.has_value() || !flags.rendezvous.empty()) return device;
  return fmt::format("cuda:{}", *first + flags.rank.value_or(0) % DevicesFrom(device));
}

absl::StatusOr<std::unique_ptr<RankSession>> RankSession::Open(const RankFlags& flags) {
  std::unique_ptr<RankProcesses> processes;
  if (flags.IsStarted()) DieWithParent();
  if (!flags.rank.has_value()) {
    NERF_ASSIGN_OR_RETURN(processes, RankProcesses::Start(flags.n_ranks));
  }
  NERF_ASSIGN_OR_RETURN(Rendezvous rendezvous, Meet(flags, processes.get()));
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<RankSession> session,
                        Join(std::make_unique<Rendezvous>(std::move(rendezvous)), flags.interface));
  session->processes_ = std::move(processes);
  return session;
}

absl::StatusOr<std::unique_ptr<RankSession>> RankSession::Join(
    std::unique_ptr<Rendezvous> rendezvous, const std::string& interface) {
  std::unique_ptr<RankSession> session(new RankSession(nullptr, std::move(rendezvous)));
  if (interface.empty()) {
    NERF_ASSIGN_OR_RETURN(session->group_, OpenSharedMemoryGroup(session->rendezvous_.get()));
    if (session->group_ != nullptr) return session;
  }
  GlooOptions options;
  options.interface = interface;
  NERF_ASSIGN_OR_RETURN(session->group_, OpenGlooGroup(session->rendezvous_.get(), options));
  return session;
}

absl::Status RankSession::Agree(const absl::Status& opened, const TrainingSession* session) {
  const std::string mine =
      opened.ok() ? Describe(*session) : kFailed + std::string(opened.message());
  const absl::StatusOr<std::vector<std::string>> all = rendezvous_->Gather(mine);
  NERF_RETURN_IF_ERROR(opened);
  if (!all.ok()) return Explain(GroupError(std::string(all.status().message())));
  for (size_t rank = 0; rank < all->size(); ++rank) {
    const std::string& text = (*all)[rank];
    if (text.starts_with(kFailed)) {
      return absl::FailedPreconditionError(
          fmt::format("rank {}: {}", rank, text.substr(sizeof(kFailed) - 1)));
    }
    const std::string difference = Difference(text, (*all)[0]);
    if (!difference.empty()) {
      return absl::FailedPreconditionError(
          fmt::format("rank {} trains something else: {}", rank, difference));
    }
  }
  return absl::OkStatus();
}

absl::Status RankSession::Explain(const GroupError& error) {
  lost_rank_ = error.lost_rank();
  group_.reset();  // the other ranks end, too
  std::string loss = processes_ != nullptr ? processes_->Loss(kPatience) : "";
  if (loss.empty()) loss = error.what();
  return absl::UnavailableError(loss);
}

}  // namespace nerf
