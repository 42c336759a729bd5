#pragma once

#include <stdexcept>

namespace attn {

/// What a user can mend: an input that does not fit, a file that cannot be read, a formula that cannot be parsed.
///
/// The message says who complains, what was found, what was expected and what to do. Programs turn it into one line
/// on standard error and exit code 2. A mistake in attn itself is a std::logic_error instead.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

} // namespace attn
