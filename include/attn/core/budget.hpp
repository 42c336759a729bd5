#pragma once

#include "attn/core/error.hpp"

#include <cstddef>
#include <cstdint>

namespace attn {

/// A trace that takes more computing than its budget allows.
class BudgetError : public Error {
public:
    using Error::Error;
};

/// What may be spent on the formulas of a trace, all of them together: they come from anywhere, and a file of a few kilobytes
/// can ask for hours of work and for any amount of memory.
///
/// A budget of size N is N billion operations, and N GiB of numbers at a time, or less where there is less memory. An
/// operation is about a nanosecond of work: a multiplication of a matrix product, an eighth of another number that is
/// computed, a few characters of a name that is looked up.
class Budget {
public:
    static constexpr std::size_t usual_size = 3;

    explicit Budget(std::size_t size = usual_size);

    /// A part of the usual one, such as a test has time for.
    static Budget of_operations(double operations);

    /// @throws BudgetError where less is left
    void spend(double operations);

    /// Takes memory until it is given back.
    /// @throws BudgetError where less is left
    void take(double bytes);
    void give_back(double bytes) { bytes_ -= bytes; }

    std::size_t size() const { return size_; }

    /// How many operations are left, but for those that are set aside.
    double left() const;

private:
    friend class BudgetShare;

    std::size_t size_;
    double operations_ = 0, bytes_ = 0; ///< spent, and taken
    double set_aside_ = 0;              ///< of the operations
    double most_bytes_ = 0;             ///< once it has been asked how much memory there is
};

/// Makes a budget the one that is spent on this thread, for as long as this lives. It belongs to a whole computation, such as
/// verifying a trace, and not to one function's arguments: everything on the way spends it.
class BudgetScope {
public:
    /// Goes on with the budget that is being spent; a usual one where there is none.
    BudgetScope();
    /// A budget of its own.
    explicit BudgetScope(const Budget& budget);
    ~BudgetScope();
    BudgetScope(const BudgetScope&) = delete;
    BudgetScope& operator=(const BudgetScope&) = delete;

private:
    Budget own_;
    Budget* around_;
};

/// The budget that is being spent; nullptr where nobody counts.
Budget* current_budget();

/// For as long as this lives, no more than a part of what is left of the budget can be spent: the rest is for what comes after.
class BudgetShare {
public:
    /// @param part  between 0 and 1
    explicit BudgetShare(double part);
    ~BudgetShare();
    BudgetShare(const BudgetShare&) = delete;
    BudgetShare& operator=(const BudgetShare&) = delete;

private:
    Budget* budget_;
    double set_aside_ = 0;
};

/// Spends it, where somebody counts.
/// @throws BudgetError where less is left
void spend(double operations);

/// Memory that was taken from the budget that is being spent, which outlives it; given back at the end.
class TakenMemory {
public:
    TakenMemory() = default;
    /// @throws BudgetError where less is left
    explicit TakenMemory(double bytes);
    TakenMemory(TakenMemory&& other) noexcept;
    TakenMemory& operator=(TakenMemory&& other) noexcept;
    ~TakenMemory();

private:
    Budget* budget_ = nullptr;
    double bytes_ = 0;
};

} // namespace attn
