#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/ops/terms.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attn {

/// A flag that one lesson has besides those of all.
struct LessonFlag {
    /// What a flag takes; one that takes nothing is false unless given.
    using Value = std::variant<bool, std::optional<std::size_t>, double, std::string,
                               std::filesystem::path>;

    std::string name; ///< "--steps"
    std::string type; ///< of its value, as --help has it: "N"; empty where it takes none
    std::string help;
    Value value; ///< unless given
};

/// The parts that every lesson program shares: flags, input, printed text, and exit code.
///
///     void teach(Lesson& lesson) { … }
///     int main(int argc, char** argv)
///     {
///         return Lesson::run("01_single_query", argc, argv, teach);
///     }
class Lesson {
public:
    /// Reads the command line, teaches, and writes the trace if one was asked for.
    /// @param topic  number and topic, as the lesson's folder is called
    /// @param flags  of this lesson only
    /// @return 0; 1 where something that the lesson claims is not so; 2 where usage or
    /// input can't be used
    static int run(std::string_view topic, int argc, char** argv, void (*teach)(Lesson&),
                   std::vector<LessonFlag> flags = {});

    /// Names the lesson's steps; see Trace.
    const Trace& trace() const { return trace_; }

    /// Names steps of runs that are not recorded, because they are many. The flags `--round`,
    /// `--ablate` and `--pitfall` act on them, too.
    const Trace& unrecorded_trace() const { return unrecorded_; }

    /// The value of one of the lesson's own flags.
    /// @param name  as in the list that run() was given, which has it and its type
    template <class T>
    const T& flag(std::string_view name) const
    {
        return std::get<T>(flag_called(name));
    }

    /// One of the lesson's given tensors: the example's, or the one of that name in the
    /// file after --input.
    /// @param step     name and axes: "inputs[n, d_model]"
    /// @param example  what the lesson takes unless told otherwise
    /// @throws Error where the file has no array of that name, or one of another rank,
    /// empty, or not finite
    /// @throws ShapeError where an axis has another size than an earlier input's axis of
    /// the same letter
    template <Traceable T>
    [[nodiscard]] Term<T> input(std::string_view step, const T& example);

    /// A given tensor that is too large to be written in the program.
    /// @param step  name and axes
    /// @param name  of an .npz beside the lesson, which has it
    template <Traceable T>
    [[nodiscard]] Term<T> stored(std::string_view step,
                                 const std::filesystem::path& name);

    /// A file beside the lesson.
    std::filesystem::path file(const std::filesystem::path& name) const;

    /// True unless the user gave numbers of their own.
    bool is_example() const;

    /// True where the user intervened: steps are replaced, and what the lesson claims
    /// need no longer be so.
    bool is_altered() const;

    /// Adds what other processes of this run recorded to the lesson's steps.
    /// @param scope  in which their paths stand: "ring"
    void add_recording(std::string_view scope, const Recording& recording);

    /// The lesson's steps so far, replaced where the user intervened.
    const Recording& recording() const;

    /// Begins a part of the lesson: "1. Three tokens".
    void heading(std::string_view text);
    /// Prints a paragraph.
    void say(std::string_view text);
    /// Shows a line on standard error where that is a terminal, in place of the one before:
    /// how far something that takes long has come. An empty one clears it.
    void progress(std::string_view text);
    /// Prints numbers side by side, under the names of their columns.
    void table(const std::vector<std::string>& columns,
               const std::vector<std::vector<double>>& rows);

    /// Says that the steps of a scope are meant to overflow, so that no warning is due.
    void expect_overflow(std::string_view scope);

    /// Claims that two results are the same but for rounding, and says so.
    /// @throws Refuted where any number is further off than 1e-12 of one, or of the
    /// largest number in the lesson so far
    template <class Found, class Expected>
    requires std::same_as<Value<Found>, Value<Expected>>
    void expect_equal(std::string_view claim, const Found& found,
                      const Expected& expected)
    {
        expect_same(claim, to_array(value_of(found)), to_array(value_of(expected)));
    }
    /// Claims that something is so, and says it.
    /// @throws Refuted where it is not
    void expect(std::string_view claim, bool is_so);

    /// A claim of the lesson that its numbers do not bear out.
    class Refuted;

private:
    struct Setup;
    explicit Lesson(Setup& setup);

    /// How a lesson ended; empty texts where it went well.
    struct Ending {
        std::string refuted;  ///< the claim that its numbers don't bear out
        std::string overflow; ///< which number was the first to overflow
    };
    /// Teaches, and looks at what came of it.
    /// @throws Error where the user's numbers or interventions can't be used
    Ending follow(void (*teach)(Lesson&));

    template <class T>
    static const Value<T>& value_of(const T& tensor)
    {
        if constexpr (Traceable<T>)
            return tensor;
        else
            return *tensor;
    }

    void expect_same(std::string_view claim, const Array& found, const Array& expected);
    const LessonFlag::Value& flag_called(std::string_view name) const;
    Array from_user(const StepLabel& label) const;
    void expect_fit(const StepLabel& label, const Shape& shape);

    Setup& setup_;
    Trace trace_, unrecorded_;
};

} // namespace attn
