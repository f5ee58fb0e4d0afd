#pragma once

#include <memory>
#include <typeinfo>
#include <utility>

#include "engine/base/check.h"

namespace nerf {

// The settings of one method: a value of the struct that its describe/ folder declares. Copies are
// independent. T has defaults for every member and operator==.
class MethodSettings {
 public:
  MethodSettings() = default;  // each method reads its own defaults
  MethodSettings(const MethodSettings& other)
      : held_(other.held_ == nullptr ? nullptr : other.held_->Clone()) {}
  MethodSettings(MethodSettings&&) noexcept = default;
  MethodSettings& operator=(const MethodSettings& other) { return *this = MethodSettings(other); }
  MethodSettings& operator=(MethodSettings&&) noexcept = default;

  // Requires: Holds<T>().
  template <typename T>
  const T& Get() const {
    static const T defaults;
    NERF_CHECK(Holds<T>());
    return held_ == nullptr ? defaults : static_cast<const Held<T>&>(*held_).value;
  }
  template <typename T>
  T& Mutable() {
    NERF_CHECK(Holds<T>());
    if (held_ == nullptr) held_ = std::make_unique<Held<T>>();
    return static_cast<Held<T>&>(*held_).value;
  }
  // True if the settings are a T or were never set.
  template <typename T>
  bool Holds() const {
    return held_ == nullptr || held_->type() == typeid(T);
  }

  // Settings that were never touched equal the defaults.
  bool operator==(const MethodSettings& other) const {
    if (held_ == nullptr) return other.held_ == nullptr || other.held_->IsDefault();
    return other.held_ == nullptr ? held_->IsDefault() : held_->Equals(*other.held_);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual std::unique_ptr<Base> Clone() const = 0;
    virtual const std::type_info& type() const = 0;
    virtual bool Equals(const Base& other) const = 0;
    virtual bool IsDefault() const = 0;
  };
  template <typename T>
  struct Held final : Base {
    T value;
    std::unique_ptr<Base> Clone() const override { return std::make_unique<Held>(*this); }
    const std::type_info& type() const override { return typeid(T); }
    bool Equals(const Base& other) const override {
      return other.type() == typeid(T) && static_cast<const Held&>(other).value == value;
    }
    bool IsDefault() const override { return value == T(); }
  };

  std::unique_ptr<Base> held_;
};

}  // namespace nerf
