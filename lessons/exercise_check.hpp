#pragma once

#include "attn/core/recorder.hpp"
#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"
#include "attn/files/npz.hpp"

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// One argument of an exercise's function, under the name of its parameter.
struct Argument {
    template <Traceable T>
    Argument(std::string_view parameter, const T& value)
        : name(parameter), arrays{{"", to_array(value)}}
    {
    }
    template <std::unsigned_integral T>
    Argument(std::string_view parameter, T value)
        : Argument(parameter, static_cast<std::int64_t>(value))
    {
    }
    /// Weights: several arrays, each with a name of its own.
    Argument(std::string_view parameter, files::NamedArrays weights)
        : name(parameter), arrays(std::move(weights))
    {
    }

    bool is_weights() const { return !arrays.contains(""); }

    std::string name;
    files::NamedArrays arrays; ///< one array without a name, or several with names
};

/// One call of an exercise's function.
struct Call {
    std::string function;                 ///< "my_weights"
    std::vector<Argument> arguments = {}; ///< in the order of the parameters
    std::string result = {}; ///< of a function with several results: which one, "cell"
    std::size_t place = 0;   ///< of that one among them
    std::string per = {};    ///< where exercise.cpp calls it once per "number"
    std::string task = {};   ///< what it does, where the step's formula doesn't say so
};

/// Compares what a learner's functions return with the steps of a traced computation.
///
///     void check(Exercise& exercise) { … exercise.expect(…); … }
///     int main(int argc, char** argv)
///     {
///         return Exercise::run("01_single_query", argc, argv, check);
///     }
///
/// The program calls the functions of exercise.cpp. With `--calls FILE.npz` it writes the
/// arguments of all calls instead, and with `--found FILE.npz` it compares what other
/// functions returned for them: this is how exercise.py is checked by the same numbers,
/// with the same messages.
class Exercise {
public:
    /// @param topic  number and topic, as the lesson's folder is called
    /// @return 0; 1 where a function is wrong or not written yet; 2 where usage or input
    /// can't
    ///         be used
    static int run(std::string_view topic, int argc, char** argv,
                   void (*check)(Exercise&));

    /// Claims that a call returns the numbers of a step.
    /// @param reference  of the right computation; each of its steps is verified
    /// @param step       the path of the step
    /// @param mine       calls the learner's function
    template <class Mine>
    void expect(const Call& call, const Recorder& reference, std::string_view step,
                const Mine& mine)
    {
#ifdef ATTN_IN_PAGE // where the learner writes a formula instead
        (void)mine;
        expect_step(call, reference.recording(), step, {});
#else
        expect_step(call, reference.recording(), step, [&] { return to_array(mine()); });
#endif
    }

    /// A file beside the lesson.
    std::filesystem::path file(const std::filesystem::path& name) const;

private:
    struct Setup;
    explicit Exercise(Setup& setup) : setup_(setup) {}

    void expect_step(const Call& call, const Recording& reference, std::string_view step,
                     const std::function<Array()>& mine);
    Array found_by(const Call& call, const std::function<Array()>& mine) const;

    Setup& setup_;
};

} // namespace attn
