#pragma once

#include "flags.hpp"

#include "attn/core/recorder.hpp"
#include "attn/files/npz.hpp"
#include "attn/show/console.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace attn {

/// Knows the largest size of any finite number in the steps so far.
class Largest final : public Listener {
public:
    double number = 0;

private:
    std::optional<Array> on_step(const Step& step) override
    {
        for (const double value : step.value.values)
            if (std::isfinite(value))
                number = std::max(number, std::abs(value));
        return std::nullopt;
    }
};

class Lesson::Refuted : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// What a lesson runs with, for as long as it runs.
struct Lesson::Setup {
    /// @param further  gets every step first, and can replace it, besides those that the
    /// flags ask for; not owned
    Setup(std::string_view lesson_topic, const LessonFlags& given,
          Listener* further = nullptr)
        : topic(lesson_topic),
          flags(given),
          style(show::style_of(flags.console)),
          console(show::standard_output(flags.console), style),
          interventions(flags.interventions),
          is_altered(flags.interventions.any() || further != nullptr),
          listeners(before(further, {&largest, &console, &recorder})),
          unrecorded(before(further, {}))
    {
        if (!flags.input.empty())
            input = files::read_npz(flags.input);
    }

    /// The listeners that replace values, before those that only listen.
    std::vector<Listener*> before(Listener* further, std::vector<Listener*> others)
    {
        std::vector<Listener*> all = interventions.before(std::move(others));
        if (further != nullptr)
            all.insert(all.begin(), further);
        return all;
    }

    std::string topic;
    LessonFlags flags;
    show::ConsoleStyle style;
    Largest largest;
    Recorder recorder;
    show::ConsoleListener console;
    mistakes::Interventions interventions;
    bool is_altered; ///< what the lesson claims need no longer be so
    Listeners listeners, unrecorded;
    std::optional<files::NamedArrays> input;
    std::vector<std::string> inputs; ///< the names of what the user can give, so far
    std::size_t checks = 0, not_held = 0;
    std::vector<std::string> meant_to_overflow; ///< scopes
    bool has_begun = false;                     ///< something was printed

    /// Where the letter of an axis was first seen; every other axis of that letter has
    /// its size.
    struct FirstSeen {
        std::string name;
        Shape shape;
        std::size_t size;
    };
    std::map<std::string, FirstSeen> axes;
};

} // namespace attn
