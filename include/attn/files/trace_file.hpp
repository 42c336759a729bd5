#pragma once

#include "attn/core/recording.hpp"
#include "attn/files/npz.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace attn::files {

/// Writes a recording as one .npz file: one array per step, and steps.json, with the formulas and other names of the
/// steps. An alias outside of any scope, such as a module's `output`, has an array as well.
///
/// All of it or nothing, and the same recording gives the same bytes. docs/trace_format.md describes the file.
///
/// @throws FileError  where two steps or aliases share a path, a path is not plain (letters, digits, _ and single dots),
///                    an alias means no step, the axes do not fit the shape, a text is not UTF-8, a value cannot be
///                    stored (a boolean 2, a whole number beyond 2^53), or the file cannot be written
void write_trace(const std::filesystem::path& path, const Recording& recording);

/// Writes the same file while the steps are computed, so that none stays in memory. Without finish() nothing is left.
class TraceWriter final : public Listener {
public:
    /// @throws FileError  where the file cannot be written
    explicit TraceWriter(const std::filesystem::path& path);
    ~TraceWriter() override;

    /// Gives the file its name.
    /// @throws FileError  where it cannot be written
    void finish();

private:
    friend void write_trace(const std::filesystem::path& path, const Recording& recording);
    struct File;

    std::optional<Array> on_step(const Step& step) override;
    void on_alias(const Alias& alias) override;

    std::unique_ptr<File> file_;
};

/// Reads a trace, written by attn or by any other program, in the order of its steps.json.
///
/// A step must have a path; formula, axes, module and options are empty where the file gives none. A steps.json that is a
/// plain list of steps, as version 1 of the format has it, has no aliases.
///
/// @throws FileError  where the file is damaged or no trace: the message names the step, what was expected and found
Recording read_trace(const std::filesystem::path& path);

/// A trace whose numbers are read when they are asked for, so that a large one is opened at once.
class TraceReader {
public:
    /// Reads the numbers of an alias that has an array, and of its step, which must be the same; no others.
    /// @throws FileError  as read_trace does, but for damage in numbers that it does not read
    explicit TraceReader(std::filesystem::path file);

    /// The recording without numbers: each step's value has its shape and type, and no values.
    const Recording& outline() const { return outline_; }

    /// The value of one step.
    /// @param most_elements  refuse a larger one before reading it
    /// @throws FileError  where its numbers are damaged
    Array value(std::size_t step, std::size_t most_elements = NpzLimits{}.elements) const
    {
        return file_.array(places_[step], most_elements);
    }

private:
    NpzReader file_;
    Recording outline_;
    std::vector<std::size_t> places_; ///< of the steps' arrays in the file
};

} // namespace attn::files
