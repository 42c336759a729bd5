#include "attn/core/budget.hpp"

#include "attn/core/memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace attn {
namespace {

constexpr double billion = 1e9, gibibyte = 1 << 30;

thread_local Budget* current = nullptr;

} // namespace

Budget::Budget(std::size_t size) : size_(size) {}

Budget Budget::of_operations(double operations)
{
    Budget budget(1);
    budget.operations_ = billion - operations;
    return budget;
}

double Budget::left() const { return billion * static_cast<double>(size_) - operations_ - set_aside_; }

void Budget::spend(double operations)
{
    if (left() < operations)
        throw BudgetError("needs more than the budget of ", size_,
                          " billion operations; --budget N raises it to N billion");
    operations_ += operations;
}

void Budget::take(double bytes)
{
    // The system is asked once, when much is wanted: it takes longer than most formulas.
    constexpr double small = 1 << 24;
    const double allowed = gibibyte * static_cast<double>(size_), wanted = bytes_ + bytes;
    if (wanted > small && most_bytes_ == 0)
        most_bytes_ = std::min(allowed, static_cast<double>(memory_left()));
    if (wanted > small && wanted > most_bytes_)
        throw BudgetError(most_bytes_ < allowed
                              ? "needs " + bytes_text(wanted) + " of numbers at a time, and there is memory for " +
                                    bytes_text(most_bytes_)
                              : "needs " + bytes_text(wanted) + " of numbers at a time, more than the budget of " +
                                    bytes_text(allowed) + "; --budget N raises it to N GiB");
    bytes_ = wanted;
}

BudgetScope::BudgetScope() : around_(current)
{
    if (current == nullptr)
        current = &own_;
}

BudgetScope::BudgetScope(const Budget& budget) : own_(budget), around_(std::exchange(current, &own_)) {}

BudgetScope::~BudgetScope() { current = around_; }

Budget* current_budget() { return current; }

BudgetShare::BudgetShare(double part) : budget_(current)
{
    if (budget_ == nullptr)
        return;
    set_aside_ = (1 - part) * std::max(budget_->left(), 0.0);
    budget_->set_aside_ += set_aside_;
}

BudgetShare::~BudgetShare()
{
    if (budget_ != nullptr)
        budget_->set_aside_ -= set_aside_;
}

void spend(double operations)
{
    if (current != nullptr)
        current->spend(operations);
}

TakenMemory::TakenMemory(double bytes) : budget_(current), bytes_(bytes)
{
    if (budget_ != nullptr)
        budget_->take(bytes);
}

TakenMemory::TakenMemory(TakenMemory&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_)
{
}

TakenMemory& TakenMemory::operator=(TakenMemory&& other) noexcept
{
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

TakenMemory::~TakenMemory()
{
    if (budget_ != nullptr)
        budget_->give_back(bytes_);
}

} // namespace attn
