#include "engine/methods/ngp/cuda/cuda_ngp_step.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "common/status_macros.h"

// The state of a step on a CUDA device: its way there, back and into files.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

}  // namespace

template <typename T>
void NgpCudaStep<T>::Upload() {
  nerf::Upload(state_.get(), &arrays_, stream_);
  const auto copies_of = [&](const Buffer<float>& masters, std::span<const float> host,
                             Buffer<Half>& copies) {
    if (copies.empty()) return;
    std::vector<Half> rounded(masters.size());
    std::transform(host.begin(), host.end(), rounded.begin(), HalfFromFloat);
    cuda::CopyToDevice(copies.data(), rounded.data(), copies.byte_size(), stream_);
    cuda::Synchronize(stream_);
  };
  const NgpParameters::Arrays host = state_->parameters.arrays();
  copies_of(arrays_.table, host.table, training_.table_copies);
  copies_of(arrays_.weights, host.weights, training_.weight_copies);
  if (warp_ != nullptr) warp_->Upload(stream_);
  grid_.FollowUpload(stream_);
}

// On the device, because the copy is made often and hardly ever needed.
template <typename T>
void NgpCudaStep<T>::Remember() {
  Copy(arrays_, &remembered_arrays_, stream_);
  if (warp_ != nullptr) warp_->Remember(stream_);
  remembered_views_ = TensorFile();
  views_.learned().Save(&remembered_views_);
  remembered_updates_ = state_->n_updates;
  remembered_ray_count_ = ray_count().state();
}

template <typename T>
absl::Status NgpCudaStep<T>::Restore() {
  NERF_ASSIGN_OR_RETURN(LearnedViews views, views_.learned().Read(remembered_views_));
  TakeViews(std::move(views));
  Download(remembered_arrays_, state_.get(), stream_);
  if (warp_ != nullptr) warp_->Restore(stream_);
  state_->n_updates = remembered_updates_;
  ray_count().Restore(remembered_ray_count_);
  Upload();
  return absl::OkStatus();
}

template <typename T>
void NgpCudaStep<T>::Save(TensorFile* file) const {
  Download(arrays_, state_.get(), stream_);
  state_->Save(file);
  ray_count().Save(file);
  views_.learned().Save(file);
  if (warp_ == nullptr) return;
  warp_->Download(stream_);
  warp_->Save(file);
}

template <typename T>
absl::Status NgpCudaStep<T>::Load(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
  NERF_ASSIGN_OR_RETURN(LearnedViews views, views_.learned().Read(file));
  // The host's copies: where one of them fails, the state is still the device's.
  if (warp_ != nullptr) NERF_RETURN_IF_ERROR(warp_->Load(file));
  NERF_RETURN_IF_ERROR(state_->Load(file));
  TakeViews(std::move(views));
  ray_count().Restore(rays);
  Upload();
  return absl::OkStatus();
}

template <typename T>
void NgpCudaStep<T>::SaveModel(TensorFile* file) const {
  DownloadModel(arrays_, state_.get(), stream_);
  state_->SaveModel(file);
  views_.learned().SaveModel(file);
  if (warp_ == nullptr) return;
  warp_->Download(stream_);
  warp_->SaveModel(file);
}

template <typename T>
absl::Status NgpCudaStep<T>::Initialize(const TensorFile& file) {
  if (warp_ != nullptr) NERF_RETURN_IF_ERROR(warp_->Initialize(file));
  NERF_RETURN_IF_ERROR(state_->Initialize(file));
  Upload();
  return absl::OkStatus();
}

template <typename T>
std::unique_ptr<TrainedModel> NgpCudaStep<T>::Snapshot() const {
  DownloadModel(arrays_, state_.get(), stream_);
  if (warp_ == nullptr) return state_->Snapshot();
  warp_->Download(stream_);
  return warp_->NewModel(*state_);
}

template <typename T>
void NgpCudaStep<T>::ReopenGrid() {
  Download(arrays_, state_.get(), stream_);
  if (warp_ != nullptr) warp_->Download(stream_);
  state_->occupancy.Reopen();
  Upload();
}

template <typename T>
void NgpCudaStep<T>::KeepEmpty(const EmptyCells& cells) {
  if (views_.learned().HasRayGradients()) return;
  Download(arrays_, state_.get(), stream_);
  state_->occupancy.KeepEmpty(cells(state_->occupancy.grid()));
  Upload();
}

template void NgpCudaStep<float>::Upload();
template void NgpCudaStep<Half>::Upload();
template void NgpCudaStep<float>::Remember();
template void NgpCudaStep<Half>::Remember();
template absl::Status NgpCudaStep<float>::Restore();
template absl::Status NgpCudaStep<Half>::Restore();
template void NgpCudaStep<float>::Save(TensorFile*) const;
template void NgpCudaStep<Half>::Save(TensorFile*) const;
template absl::Status NgpCudaStep<float>::Load(const TensorFile&);
template absl::Status NgpCudaStep<Half>::Load(const TensorFile&);
template void NgpCudaStep<float>::SaveModel(TensorFile*) const;
template void NgpCudaStep<Half>::SaveModel(TensorFile*) const;
template absl::Status NgpCudaStep<float>::Initialize(const TensorFile&);
template absl::Status NgpCudaStep<Half>::Initialize(const TensorFile&);
template std::unique_ptr<TrainedModel> NgpCudaStep<float>::Snapshot() const;
template std::unique_ptr<TrainedModel> NgpCudaStep<Half>::Snapshot() const;
template void NgpCudaStep<float>::KeepEmpty(const EmptyCells&);
template void NgpCudaStep<Half>::KeepEmpty(const EmptyCells&);
template void NgpCudaStep<float>::ReopenGrid();
template void NgpCudaStep<Half>::ReopenGrid();

}  // namespace nerf
