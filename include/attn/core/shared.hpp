#pragma once

#include "attn/core/tensor.hpp"

#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace attn {

/// An optional value that never changes and that its copies share: options with a large mask are passed on without a copy of it.
template <class T>
class Shared {
public:
    Shared() = default;
    Shared(std::nullopt_t) {}
    template <class U>
    requires std::convertible_to<U, T> &&(!std::same_as<std::remove_cvref_t<U>, Shared>)Shared(U&& value)
        : value_(std::make_shared<const T>(std::forward<U>(value)))
    {
    }
    template <std::convertible_to<T> U>
    Shared(const std::optional<U>& value) : Shared(value ? Shared(*value) : Shared())
    {
    }
    template <OtherTensor U>
    Shared(const U&) : Shared(T(RefusedTensor<U>()))
    {
    }

    bool has_value() const { return value_ != nullptr; }
    explicit operator bool() const { return has_value(); }
    const T& operator*() const { return *value_; }
    const T* operator->() const { return value_.get(); }

private:
    std::shared_ptr<const T> value_;
};

} // namespace attn
