#pragma once

#include "attn/engines/train/adam.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace attn::train {

/// What a training needs to go on as if it had not been interrupted.
struct Checkpoint {
    AdamState state; ///< weights and Adam's means
    std::vector<double>
        progress; ///< what the program counts besides: sums of the epoch so far, results of earlier ones
};

/// Writes a checkpoint as an .npz file: weights, first_moment and second_moment in float32, steps, progress, and the recipe
/// in training.json. All of it or nothing: where writing fails, the file that was there stays.
/// @param recipe  what the training was started with, as text
/// @throws FileError where it can't be written
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint, std::string_view recipe);

/// Reads a checkpoint. What its progress means is known to the program alone, which has to check it.
/// @param recipe  the one that goes on; it must be the one that was begun
/// @throws FileError where the file is damaged, no checkpoint, or one of another training; where a weight or a mean is not a
///                   number that float32 has, a mean of squares is negative, progress is infinite or NaN, or steps is none or
///                   does not fit the means
Checkpoint read_checkpoint(const std::filesystem::path& path, std::string_view recipe);

/// While one lives, Ctrl-C, SIGTERM and SIGHUP don't end the program but are noted, so that it can save first. With its
/// life's end the signal does what it would have done. There is one at a time.
class Interruption {
public:
    Interruption();
    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;
    ~Interruption();

    /// True where the program is to end.
    static bool is_asked_for();
};

} // namespace attn::train
