#pragma once

#include <limits>
#include <string>

// Catch2 under one name: version 3 where there is one, 2.13 otherwise.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

namespace attn::test {

/// The message of the exception that a call ends with; otherwise where it ends without one. Other exceptions go on.
template <class Exception, class Call>
std::string caught(const Call& call, const std::string& otherwise = "")
{
    try {
        call();
    } catch (const Exception& error) {
        return error.what();
    }
    return otherwise;
}

} // namespace attn::test
