#include "engine/base/background_thread.h"

#include <pthread.h>

#include <utility>

#include "engine/base/parallel_for.h"

namespace nerf {

BackgroundThread::BackgroundThread(const char* name, std::function<void()> body)
    : thread_([body = std::move(body)] {
        FlushDenormals();
        body();
      }) {
  pthread_setname_np(thread_.native_handle(), name);
}

}  // namespace nerf
