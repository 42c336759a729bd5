#include "attn/engines/train/checkpoint.hpp"

#include "temporary_folder.hpp"
#include "test.hpp"
#include "engines/train/examples.hpp"

#include "attn/engines/train/audit.hpp"
#include "attn/engines/train/batches.hpp"
#include "attn/engines/train/parameters.hpp"
#include "attn/files/file.hpp"
#include "attn/files/npz.hpp"
#include "attn/formula/verify.hpp"

#include <cmath>
#include <csignal>
#include <fstream>
#include <numeric>
#include <optional>

using namespace attn;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::train;
using namespace attn::test;

namespace {

Checkpoint small_checkpoint()
{
    Checkpoint checkpoint{AdamState({0.1F, -2, 3e-30F}), {0.3, 7}};
    checkpoint.state.first = {1e-38F, 0, -5};
    checkpoint.state.second = {0, 1e-20F, 2};
    checkpoint.state.steps = 41;
    return checkpoint;
}

/// All that is in an .npz file.
Npz content_of(const std::filesystem::path& path)
{
    const NpzReader file(path);
    Npz content{{{"training.json", file.text("training.json").value()}}, {}, ""};
    for (std::size_t i = 0; i < file.names().size(); ++i)
        content.arrays.emplace_back(file.names()[i], file.array(i));
    return content;
}

} // namespace

TEST_CASE("a checkpoint comes back to the last bit", "[train][checkpoint]")
{
    const TemporaryFolder folder;
    const Checkpoint written = small_checkpoint();
    write_checkpoint(folder / "c.npz", written, "seed 1");
    const Checkpoint read = read_checkpoint(folder / "c.npz", "seed 1");
    CHECK(read.state.weights == written.state.weights);
    CHECK(read.state.first == written.state.first);
    CHECK(read.state.second == written.state.second);
    CHECK(read.state.steps == 41);
    CHECK(read.progress == written.progress);
}

TEST_CASE("a file that is no whole checkpoint of this training is refused in one line that names it",
          "[train][checkpoint]")
{
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "c.npz";
    write_checkpoint(path, small_checkpoint(), "seed 1");
    CHECK_THROWS_WITH(read_checkpoint(path, "seed 2"),
                      ContainsSubstring("a training with seed 1, and this one has seed 2"));
    const std::string whole = bytes_of(path);
    for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 60) {
        std::ofstream(path, std::ios::binary) << whole.substr(0, length);
        CHECK_THROWS_AS(read_checkpoint(path, "seed 1"), FileError);
    }
    CHECK_THROWS_WITH(read_checkpoint(folder / "none.npz", "seed 1"), ContainsSubstring("there is no such file"));
    write_npz(path, {{}, {{"weights", {{1}, {1}}}}, ""});
    CHECK_THROWS_WITH(read_checkpoint(path, "seed 1"), ContainsSubstring("is no checkpoint of a training"));
    Npz other{{{"training.json", R"({"format": "attn training", "version": 1, "recipe": "seed 1"})"}}, {}, ""};
    write_npz(path, other);
    CHECK_THROWS_WITH(read_checkpoint(path, "seed 1"), ContainsSubstring("has no array weights"));
    const Array three{{3}, {1, 2, 3}}, two{{2}, {1, 2}}, one{{}, {1}, ElementType::integer};
    other.arrays = {
        {"weights", three}, {"first_moment", two}, {"second_moment", three}, {"steps", one}, {"progress", two}};
    write_npz(path, other);
    CHECK_THROWS_WITH(read_checkpoint(path, "seed 1"),
                      ContainsSubstring("first_moment has the shape (2,), expected (3,)"));
    other.arrays[1].second = {{3}, {1, 2, infinity}};
    write_npz(path, other);
    CHECK_THROWS_WITH(read_checkpoint(path, "seed 1"),
                      ContainsSubstring("first_moment[2] is inf, expected a number that float32 has"));
}

TEST_CASE("a checkpoint with any number replaced by one that no training gives is refused, or harmless",
          "[train][checkpoint]")
{
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "c.npz";
    write_checkpoint(path, small_checkpoint(), "seed 1");
    const Npz whole = content_of(path);
    std::size_t refused = 0, harmless = 0;
    for (std::size_t array = 0; array < whole.arrays.size(); ++array)
        for (std::size_t i = 0; i < whole.arrays[array].second.size(); ++i)
            for (const double number : {std::nan(""), infinity, -infinity, -1.0, 0.0, 1e39, 1e300}) {
                Npz changed = whole;
                Array& values = changed.arrays[array].second;
                if (values.type == ElementType::integer && !(std::abs(number) < 9e15))
                    continue; // which no .npz file can hold
                values.values[i] = number;
                write_npz(path, changed);
                CAPTURE(whole.arrays[array].first, i, number);
                std::optional<Checkpoint> read;
                try {
                    read = read_checkpoint(path, "seed 1");
                    ++harmless;
                } catch (const FileError& error) {
                    CHECK_THAT(error.what(), ContainsSubstring(whole.arrays[array].first));
                    ++refused;
                }
                if (!read)
                    continue;
                const auto is_finite = [](double value) { return std::isfinite(value); };
                CHECK(std::ranges::all_of(read->state.weights, is_finite));
                CHECK(std::ranges::all_of(read->state.first, is_finite));
                CHECK(std::ranges::all_of(read->state.second,
                                          [](float square) { return square >= 0 && square < 1e38F; }));
                CHECK(std::ranges::all_of(read->progress, is_finite));
            }
    CHECK(refused == 56);
    CHECK(harmless == 23);
}

TEST_CASE("a training that diverges ends with a line, and has no weights to save", "[train][checkpoint]")
{
    Numbers numbers(2);
    const GptTrainingOptions too_fast{.model = {.heads = 3}, .rate = [](std::uint64_t) { return 1e30; }};
    const std::vector<Text> texts = random_texts(numbers, 4, 7);
    GptTrainer trainer(random_decoder(numbers), too_fast);
    const auto train = [&] {
        for (int step = 0; step < 20; ++step)
            trainer.step(texts);
    };
    CHECK_THROWS_WITH(train(), ContainsSubstring("training has diverged: the loss after 1 steps is"));
    CHECK_THROWS_WITH(trainer.evaluate(texts), ContainsSubstring("training has diverged: the loss after"));

    GptTrainer spoiled(random_decoder(numbers), {.model = {.heads = 3}});
    AdamState state = spoiled.state();
    state.weights[5] = static_cast<float>(infinity);
    spoiled.restore(state);
    CHECK_THROWS_WITH(spoiled.weights(), ContainsSubstring("training has diverged: weights[5] after 0 steps is inf"));
    CHECK_THROWS_WITH(spoiled.state(), ContainsSubstring("training has diverged"));
}

TEST_CASE("an interruption is noted, and the handlers of others are left alone", "[train][checkpoint]")
{
    std::signal(SIGHUP, SIG_IGN);
    const auto before = std::signal(SIGTERM, [](int) {});
    {
        const Interruption interruption;
        CHECK_FALSE(Interruption::is_asked_for());
        std::raise(SIGHUP);
        std::raise(SIGTERM);
        CHECK_FALSE(Interruption::is_asked_for());
    }
    std::signal(SIGHUP, SIG_DFL);
    std::signal(SIGTERM, before);
}

TEST_CASE("a step of training as a trace verifies, and ends where training in float32 does", "[train][audit]")
{
    Numbers numbers(1);
    const GptWeights weights = random_decoder(numbers);
    const std::vector<Text> texts = random_texts(numbers, 4, 7);
    const GptTrainingOptions options{.model = {.heads = 3}, .label_smoothing = 0.1};
    GptTrainer trainer(weights, options);
    for (int step = 0; step < 3; ++step)
        trainer.step(texts);
    const AdamState before = trainer.state();
    const TextBatch batch = batch_of(texts);
    const auto run = [&](const GptWeights& of, const Trace& trace) {
        (void)cross_entropy(gpt(batch.ids, {}, of, options.model, trace), batch.targets, {0.1}, trace);
    };
    const GptWeights shapes = weights;
    const Recording audited =
        audit_step(unpacked(before.weights, shapes), unpacked(before.first, shapes), unpacked(before.second, shapes),
                   run, options.adam, adam_factors(options.adam, options.rate(4), 4));
    CHECK(verify(audited).passed());
    trainer.step(texts);
    GptWeights found = trainer.weights(), expected = updated(audited, unpacked(before.weights, shapes), run);
    for (GptWeights* of : {&found, &expected})
        for (EncoderLayerWeights& layer :
             of->layers) // its gradient is rounding, and Adam steps as far for a small gradient
            layer.self_attention.key.bias->fill(0);
    const auto [error, where] = worst_difference(found, expected);
    const auto [moved, what] = worst_difference(found, unpacked(before.weights, shapes));
    CAPTURE(where, error, moved);
    CHECK(moved > 1000 * error);
}
