#include "engine/tool/mailbox.h"

#include <utility>

namespace nerf {
namespace {

// Beyond this the other side does not wait for answers, and is told so.
constexpr size_t kMaxWaitingBytes = size_t{64} << 20;
// No message of ours nests deeper; writing a value out again costs stack for each level.
constexpr int kMaxDepth = 32;

bool NestsTooDeep(const std::string& line) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::string TextAt(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool IsRequest(const Mail& mail) {
  const std::string type = mail.error.empty() ? TextAt(mail.message, "type") : "";
  return type == "render" || type == "check";
}

// A stop that will not be refused when its turn comes.
bool IsStopOf(const nlohmann::json& message, const std::string& job) {
  if (TextAt(message, "type") != "stop" || TextAt(message, "job") != job) return false;
  const std::string mode = TextAt(message, "mode");
  return mode == "checkpoint" || mode == "discard";
}

}  // namespace

void Mailbox::PutLine(const std::string& line) {
  if (NestsTooDeep(line)) return PutError("a message nests more than 32 levels");
  nlohmann::json message = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (message.is_discarded()) return PutError("a line is no JSON");
  if (!message.is_object()) return PutError("a message is no JSON object");
  const auto type = message.find("type");
  if (type == message.end() || !type->is_string()) {
    return PutError("a message has no type, or one that is no string");
  }
  MutexLock lock(mu_);
  if (*type == "cancel") return Cancel(TextAt(message, "id"));
  if (!job_.empty() && IsStopOf(message, job_)) {
    job_source_.request_stop();
    return Put({.message = std::move(message), .byte_size = line.size()}, &urgent_);
  }
  // A job does not wait for pictures, which go on beside it.
  std::deque<Mail>* const queue = *type == "train" ? &urgent_ : &waiting_;
  Put({.message = std::move(message), .byte_size = line.size()}, queue);
}

void Mailbox::PutError(std::string error) {
  MutexLock lock(mu_);
  Put({.error = std::move(error)}, &waiting_);
}

void Mailbox::Put(Mail mail, std::deque<Mail>* queue) {
  if (waiting_bytes_ + mail.byte_size > kMaxWaitingBytes) {
    mail = {.error = "too many messages wait"};
  }
  // Errors alone may flood, too: one stands for those behind it.
  if (!mail.error.empty() && queue->size() > 1000 && !queue->back().error.empty()) return;
  waiting_bytes_ += mail.byte_size;
  queue->push_back(std::move(mail));
  changed_.NotifyAll();
}

void Mailbox::Cancel(const std::string& id) {
  if (!request_.empty() && request_ == id) request_source_.request_stop();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (IsRequest(*it) && TextAt(it->message, "id") == id) {
      it->cancelled = true;
      urgent_.push_back(std::move(*it));
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
  changed_.NotifyAll();
}

void Mailbox::End() {
  MutexLock lock(mu_);
  ended_ = true;
  job_source_.request_stop();
  request_source_.request_stop();
  changed_.NotifyAll();
}

std::optional<Mail> Mailbox::Pop(std::deque<Mail>* queue) {
  if (queue->empty() || ended_) return std::nullopt;
  Mail mail = std::move(queue->front());
  queue->pop_front();
  waiting_bytes_ -= mail.byte_size;
  if (IsRequest(mail) && !mail.cancelled) {
    request_ = TextAt(mail.message, "id");
    request_source_ = std::stop_source();
    mail.stop = request_source_.get_token();
  }
  return mail;
}

std::optional<Mail> Mailbox::TryTake() {
  MutexLock lock(mu_);
  return Pop(urgent_.empty() ? &waiting_ : &urgent_);
}

std::optional<Mail> Mailbox::TryTakeUrgent() {
  MutexLock lock(mu_);
  return Pop(&urgent_);
}

bool Mailbox::HasUrgent() {
  MutexLock lock(mu_);
  return !urgent_.empty();
}

std::optional<Mail> Mailbox::WaitTake() {
  MutexLock lock(mu_);
  while (waiting_.empty() && urgent_.empty() && !ended_) changed_.Wait(mu_);
  return Pop(urgent_.empty() ? &waiting_ : &urgent_);
}

std::stop_token Mailbox::BeginJob(const std::string& job) {
  MutexLock lock(mu_);
  job_ = job;
  job_source_ = std::stop_source();
  if (ended_) job_source_.request_stop();
  // A stop may have come while the job itself still waited.
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->error.empty() && IsStopOf(it->message, job)) {
      job_source_.request_stop();
      urgent_.push_back(std::move(*it));
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
  return job_source_.get_token();
}

void Mailbox::EndJob() {
  MutexLock lock(mu_);
  job_.clear();
}

void Mailbox::EndRequest() {
  MutexLock lock(mu_);
  request_.clear();
}

void Mailbox::PutBackRequest(Mail mail) {
  MutexLock lock(mu_);
  mail.cancelled = request_source_.stop_requested();
  request_.clear();
  waiting_bytes_ += mail.byte_size;
  (mail.cancelled ? urgent_ : waiting_).push_front(std::move(mail));
}

}  // namespace nerf
