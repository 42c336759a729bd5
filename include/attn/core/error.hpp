#pragma once

#include <stdexcept>

namespace attn {

/// An error that a user can correct: an input that does not fit, a file that cannot be read, a formula that cannot be
/// parsed.
///
/// The message names the function or file, what was found, what was expected and what to do. Programs turn it into one
/// line on standard error and exit code 2. A mistake in attn itself is a std::logic_error instead.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// An Error with a line for each of several things that are wrong. What is in it from outside is printable.
class ErrorList : public Error {
public:
    using Error::Error;
};

} // namespace attn
