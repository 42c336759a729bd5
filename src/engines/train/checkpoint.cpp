#include "attn/engines/train/checkpoint.hpp"

#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/npz.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <limits>

namespace attn::train {
namespace {

constexpr std::string_view format = "attn training", description = "training.json";

Array in_double(const std::vector<float>& numbers)
{
    return {{numbers.size()}, {numbers.begin(), numbers.end()}, ElementType::real};
}

/// The recipe in a file's own words; the file is some other one where it has none.
std::string recipe_in(const files::NpzReader& file)
{
    const std::optional<std::string> text = file.text(std::string(description));
    if (!text)
        throw files::FileError(file.path(),
                               "is no checkpoint of a training, since it has no " + std::string(description));
    const nlohmann::json stored = files::about_file(file.path(), std::string(description) + " ", [&] {
        return files::parse_json_object(*text, R"({"format": "attn training", ...})");
    });
    const auto is_text = [&](const char* key) { return stored.contains(key) && stored.at(key).is_string(); };
    if (!is_text("format") || stored.at("format") != format || stored.value("version", nlohmann::json()) != 1 ||
        !is_text("recipe"))
        throw files::FileError(file.path(), std::string(description) + " is none of version 1 of a checkpoint");
    return stored.at("recipe").get<std::string>();
}

Array array_of(const files::NpzReader& file, std::string_view name)
{
    const auto found = std::ranges::find(file.names(), name);
    if (found == file.names().end())
        throw files::FileError(file.path(),
                               "has no array " + std::string(name) + ", so it is no checkpoint of a training");
    return file.array(static_cast<std::size_t>(found - file.names().begin()));
}

/// An array of a number per weight.
/// @param least  what each number is at least
std::vector<float> in_float(const files::NpzReader& file, std::string_view name, std::size_t count, float least)
{
    const Array array = array_of(file, name);
    if (array.rank() != 1 || array.size() != count)
        throw files::FileError(file.path(), std::string(name) + " has the shape " + to_string(array.shape) +
                                                ", expected (" + std::to_string(count) + ",) as the weights");
    constexpr double largest = std::numeric_limits<float>::max();
    for (std::size_t i = 0; i < count; ++i)
        if (const double number = array.values[i]; !(number >= least && number <= largest))
            throw files::FileError(file.path(),
                                   std::string(name) + "[" + std::to_string(i) + "] is " + exact_text(number) +
                                       (least == 0 ? ", expected a positive number or 0" : ", expected a number") +
                                       " that float32 has");
    return {array.values.begin(), array.values.end()};
}

/// The number of steps that were taken, each of which leaves a mark on the means.
std::uint64_t steps_in(const files::NpzReader& file, const AdamState& state)
{
    const Array steps = array_of(file, "steps");
    if (steps.type != ElementType::integer || steps.rank() != 0 || steps.values[0] < 0)
        throw files::FileError(file.path(), "steps is no number of steps");
    const auto is_zero = [](float number) { return number == 0; };
    if (steps.values[0] == 0 &&
        !(std::ranges::all_of(state.first, is_zero) && std::ranges::all_of(state.second, is_zero)))
        throw files::FileError(file.path(),
                               "steps is 0, but there are means of gradients, first_moment and second_moment");
    return static_cast<std::uint64_t>(steps.values[0]);
}

volatile std::sig_atomic_t noted = 0;
constexpr std::array ending{SIGINT, SIGTERM, SIGHUP};
std::array<bool, ending.size()> is_noted{};

void note_ending(int signal) { noted = signal; }

} // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint, std::string_view recipe)
{
    const nlohmann::json stored{{"format", format}, {"version", 1}, {"recipe", recipe}};
    files::Npz content;
    content.texts.emplace_back(description, stored.dump() + "\n");
    content.arrays.emplace_back("weights", in_double(checkpoint.state.weights));
    content.arrays.emplace_back("first_moment", in_double(checkpoint.state.first));
    content.arrays.emplace_back("second_moment", in_double(checkpoint.state.second));
    content.arrays.emplace_back("steps",
                                Array{{}, {static_cast<double>(checkpoint.state.steps)}, ElementType::integer});
    content.arrays.emplace_back("progress",
                                Array{{checkpoint.progress.size()}, checkpoint.progress, ElementType::real});
    files::write_npz(path, content);
}

Checkpoint read_checkpoint(const std::filesystem::path& path, std::string_view recipe)
{
    const files::NpzReader file(path);
    if (const std::string found = recipe_in(file); found != recipe)
        throw files::FileError(path, "is the checkpoint of a training with " + found + ", and this one has " +
                                         std::string(recipe) + ": give the same flags");
    constexpr float any = std::numeric_limits<float>::lowest();
    const std::size_t count = array_of(file, "weights").size();
    Checkpoint checkpoint{AdamState(in_float(file, "weights", count, any)), array_of(file, "progress").values};
    if (!std::ranges::all_of(checkpoint.progress, [](double number) { return std::isfinite(number); }))
        throw files::FileError(path, "progress has numbers that are infinite or NaN");
    checkpoint.state.first = in_float(file, "first_moment", count, any);
    checkpoint.state.second = in_float(file, "second_moment", count, 0);
    checkpoint.state.steps = steps_in(file, checkpoint.state);
    return checkpoint;
}

Interruption::Interruption()
{
    noted = 0;
    for (std::size_t i = 0; i < ending.size(); ++i) {
        const auto before = std::signal(ending[i], note_ending);
        is_noted[i] = before == SIG_DFL;
        if (!is_noted[i]) // such as SIGHUP after nohup
            std::signal(ending[i], before);
    }
}

Interruption::~Interruption()
{
    for (std::size_t i = 0; i < ending.size(); ++i)
        if (is_noted[i])
            std::signal(ending[i], SIG_DFL);
    if (noted != 0)
        std::raise(noted);
}

bool Interruption::is_asked_for() { return noted != 0; }

} // namespace attn::train
