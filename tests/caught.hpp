#pragma once

#include <string>

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
