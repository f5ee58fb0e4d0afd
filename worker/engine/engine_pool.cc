#include "worker/engine/engine_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/logging.h"

namespace nerf {

EnginePool::EnginePool(EnginePoolOptions options, const Clock& clock, EngineLauncher& launcher,
                       Mailbox& mailbox, TaskRunner& tasks, Listener listener)
    : options_(std::move(options)), clock_(clock), tasks_(tasks), listener_(std::move(listener)) {
  const SteadyTime past = clock.Now() + -std::max(options_.quiet_time, options_.turn);
  for (int engine = 0; engine < kEngines; ++engine) {
    Slot& slot = slots_[engine];
    slot.last_asked = slot.turn_began = past;
    slot.supervisor = std::make_unique<EngineSupervisor>(
        options_.engine, clock, launcher, mailbox,
        EngineSupervisor::Listener{
            .on_ready =
                [this, engine] {
                  slots_[engine].turn_began = clock_.Now();
                  last_ready_ = engine;
                  listener_.on_ready(engine);
                },
            .on_message =
                [this, engine](const internal::EngineMessage& message) {
                  listener_.on_message(engine, message);
                },
            .on_exit = [this,
                        engine](const EngineExit& exit) { listener_.on_exit(engine, exit); }});
  }
  Assign(job_engine_, NewRoom(), /*in_gang=*/false);
}

std::shared_ptr<EngineRoom> EnginePool::NewRoom() {
  rooms_.push_back(
      std::make_shared<EngineRoom>(fmt::format("{}/{}", options_.folder, ++n_rooms_made_)));
  return rooms_.back();
}

std::shared_ptr<EngineRoom> EnginePool::RoomOf(const std::string& project) {
  for (const auto& room : rooms_) {
    if (room->project() == project) return room;
  }
  for (const Slot& slot : slots_) {
    if (slot.room == nullptr || slot.room->project().has_value()) continue;
    slot.room->SetProject(project);
    return slot.room;
  }
  const std::shared_ptr<EngineRoom> room = NewRoom();
  room->SetProject(project);
  return room;
}

void EnginePool::Assign(int engine, const std::shared_ptr<EngineRoom>& room, bool in_gang) {
  Slot& slot = slots_[engine];
  slot.room = room;
  slot.in_gang = in_gang;
  slot.promised = false;
  slot.supervisor->Start(EngineAccess{.read_paths = {room->open()},
                                      .write_paths = {room->jobs(), room->requests()},
                                      .ranks = in_gang});
}

void EnginePool::Stop(int engine) {
  slots_[engine].supervisor->Stop();
  slots_[engine].room.reset();
}

void EnginePool::GiveUp(int engine) {
  const std::string why = slots_[engine].supervisor->last_failure();
  const std::shared_ptr<EngineRoom> room = slots_[engine].room;
  Stop(engine);
  listener_.on_hopeless(*room, why);
}

bool EnginePool::GiveUpMain() {
  static_assert(kEngines == 2);
  const int other = 1 - job_engine_;
  if (slots_[other].room == nullptr) return false;
  LogError("the engine for jobs does not start; the worker goes on with its other engine",
           {{"why", main().last_failure()}});
  GiveUp(std::exchange(job_engine_, other));
  return true;
}

void EnginePool::Tick() {
  const SteadyTime now = clock_.Now();
  for (int engine = 0; engine < kEngines; ++engine) {
    Slot& slot = slots_[engine];
    if (slot.room == nullptr) continue;
    slot.supervisor->Tick();
    if (engine == job_engine_) continue;
    if (slot.supervisor->failed_starts() >= options_.max_failed_starts) {
      LogError("the second engine does not start", {{"why", slot.supervisor->last_failure()}});
      GiveUp(engine);
    } else if (!listener_.has_requests(engine) &&
               now - slot.last_asked >= options_.spare_idle_time) {
      Stop(engine);
    }
  }
  RemoveUnusedRooms();
}

void EnginePool::RemoveUnusedRooms() {
  std::erase_if(rooms_, [this](std::shared_ptr<EngineRoom>& room) {
    if (room.use_count() > 1) return false;
    tasks_.Run(
        Lane::kRequest,
        [folder = room->folder()] {
          std::error_code ignored;
          std::filesystem::remove_all(folder, ignored);
        },
        [] {});
    return true;
  });
}

int EnginePool::EngineOf(const EngineRoom& room) const {
  for (int engine = 0; engine < kEngines; ++engine) {
    if (slots_[engine].room.get() == &room) return engine;
  }
  return -1;
}

int EnginePool::Stopped() const {
  for (int engine = 0; engine < kEngines; ++engine) {
    if (slots_[engine].room == nullptr) return engine;
  }
  return -1;
}

int EnginePool::LeastAsked(const std::function<bool(int)>& may) const {
  int least = -1;
  for (int engine = 0; engine < kEngines; ++engine) {
    const bool has_job = engine == job_engine_ && listener_.has_job();
    if (slots_[engine].room == nullptr || has_job || !may(engine)) continue;
    if (least < 0 || slots_[engine].last_asked < slots_[least].last_asked) least = engine;
  }
  return least;
}

bool EnginePool::IsQuiet(int engine) const {
  return !listener_.has_requests(engine) &&
         clock_.Now() - slots_[engine].last_asked >= options_.quiet_time;
}

bool EnginePool::PrepareForJob(const std::shared_ptr<EngineRoom>& room, bool in_gang) {
  int engine = EngineOf(*room);
  if (engine < 0) engine = LeastAsked([this](int other) { return IsQuiet(other); });
  if (engine < 0) engine = Stopped();
  if (engine < 0) engine = LeastAsked([](int) { return true; });
  Slot& slot = slots_[engine];
  if (slot.room != room || slot.in_gang != in_gang) {
    if (slot.room != nullptr && listener_.has_requests(engine)) {
      job_wish_ = engine;
      return false;
    }
    Assign(engine, room, in_gang);
  }
  job_engine_ = engine;
  const bool ready = slot.supervisor->ready();
  if (!ready) job_wish_ = engine;  // it is quiet, but not for requests to take
  return ready;
}

void EnginePool::LeaveGang() {
  Slot& slot = slots_[job_engine_];
  if (!slot.in_gang) return;
  if (listener_.has_requests(job_engine_)) {
    job_wish_ = job_engine_;
  } else {
    Assign(job_engine_, slot.room, /*in_gang=*/false);
  }
}

void EnginePool::BeginRequests() {
  // Requests that still wait say again what they need.
  for (Slot& slot : slots_) slot.promised = false;
}

std::optional<int> EnginePool::ForRequest(const std::shared_ptr<EngineRoom>& room) {
  const SteadyTime now = clock_.Now();
  int engine = EngineOf(*room);
  if (engine >= 0) {
    Slot& slot = slots_[engine];
    slot.last_asked = now;
    if (slot.promised || engine == job_wish_ || !slot.supervisor->ready()) return std::nullopt;
    return engine;
  }
  engine = Stopped();
  if (engine < 0) {
    engine = LeastAsked([this](int other) { return other != job_wish_ && IsQuiet(other); });
  }
  if (engine < 0) {
    engine = LeastAsked([&](int other) {
      const Slot& slot = slots_[other];
      return other != job_wish_ && !slot.promised && slot.supervisor->ready() &&
             now - slot.turn_began >= options_.turn;
    });
    if (engine < 0) return std::nullopt;
    slots_[engine].promised = true;
    if (listener_.has_requests(engine)) return std::nullopt;
  }
  Assign(engine, room, /*in_gang=*/false);
  slots_[engine].last_asked = now;
  return std::nullopt;
}

int EnginePool::restarts() const {
  int n_restarts = 0;
  for (const Slot& slot : slots_) n_restarts += slot.supervisor->restarts();
  return n_restarts;
}

}  // namespace nerf
