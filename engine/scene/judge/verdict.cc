#include "engine/scene/judge/verdict.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace nerf {
namespace {

std::string MessageOf(const Verdict& verdict) {
  return verdict.remedy.empty() ? verdict.cause : absl::StrCat(verdict.cause, ": ", verdict.remedy);
}

}  // namespace

void Verdicts::Refuse(const Verdict& verdict) {
  problems_.Add(verdict.file, verdict.field, MessageOf(verdict));
}

void Verdicts::Warn(const Verdict& verdict) {
  warnings_.push_back(ToString({verdict.file, verdict.field, MessageOf(verdict)}));
}

}  // namespace nerf
