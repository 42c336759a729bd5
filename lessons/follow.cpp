#include "setup.hpp"

#include "attn/formula/overflow.hpp"

namespace attn {
namespace {

/// What is said where numbers overflow, unless the user asked for a mistake that makes them.
std::optional<std::string> overflow_in(const Recording& recording,
                                       const std::vector<std::string>& meant,
                                       const LessonFlags& flags)
{
    const auto overflow = formula::find_overflow(recording, meant);
    if (!overflow || !flags.interventions.pitfall.empty())
        return std::nullopt;
    return (flags.input.empty() ? "" : flags.input.string() + ": ") +
           formula::to_text(*overflow);
}

} // namespace

Lesson::Ending Lesson::follow(void (*teach)(Lesson&))
{
    const auto overflow = [&] {
        return overflow_in(recording(), setup_.meant_to_overflow, setup_.flags);
    };
    try {
        teach(*this);
    } catch (const Refuted& error) {
        if (const auto found = overflow())
            throw Error(*found);
        return {.refuted = error.what(), .overflow = ""};
    } catch (const Error& error) {
        if (setup_.flags.input.empty())
            throw;
        throw Error(setup_.flags.input.string() + ": " + error.what());
    }
    setup_.interventions.expect_effect();
    return {.refuted = "", .overflow = overflow().value_or("")};
}

} // namespace attn
