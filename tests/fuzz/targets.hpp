#pragma once

#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

/// What each reader must do with any bytes at all: read them, or complain with an attn::Error.
///
/// Plain functions, so that the tests' program compiles them too. main.cpp makes one of them a libFuzzer program.
namespace attn::fuzz {

void diff(std::string_view bytes);
void explain(std::string_view bytes);
void formula(std::string_view bytes);
void npy(std::string_view bytes);
void npz(std::string_view bytes);
void run(std::string_view bytes);
void safetensors(std::string_view bytes);
void tokenizer(std::string_view bytes);
void trace(std::string_view bytes);
void verify(std::string_view bytes);

/// What every input may take: instruments make all of it ten times slower, and each input is to end within a second.
struct SmallBudget : BudgetScope {
    SmallBudget() : BudgetScope(Budget::of_operations(operations)) {}
    static constexpr double operations = 5e7;
};

/// @throws std::logic_error  where it does not hold: the fuzzer stops there
inline void expect(bool holds, const std::string& what)
{
    if (!holds)
        throw std::logic_error(what);
}

/// Runs what may not complain of what was read without complaint.
template <class F>
auto must_succeed(F&& action)
{
    try {
        return std::forward<F>(action)();
    } catch (const Error& error) {
        throw std::logic_error(std::string("what was read is refused: ") + error.what());
    }
}

} // namespace attn::fuzz
