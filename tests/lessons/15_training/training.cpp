// Lesson 15: its own flags, its checkpoints, and the experiment on film reviews, whose data need not be there.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"
#include "lessons/15_training/reviews/data.hpp"

#include "attn/engines/train/checkpoint.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/formula/verify.hpp"

#include <cstdlib>
#include <fstream>

using namespace attn;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::train;

namespace {

const std::string training_lesson = "lesson_15_training";

/// The folder of the prepared reviews: beside the checkout, or where ATTN_IMDB says. Empty, said aloud, where it is not.
std::filesystem::path real_reviews()
{
    const char* named = std::getenv("ATTN_IMDB");
    const std::filesystem::path folder =
        named != nullptr ? std::filesystem::path(named)
                         : std::filesystem::path(ATTN_SOURCE_FOLDER) / ".." / "shared" / "data" / "imdb";
    if (std::filesystem::is_regular_file(folder / "x_train_20000_80.npy"))
        return folder;
    WARN("SKIPPED: there is no x_train_20000_80.npy in " << folder.string()
                                                         << "; ATTN_IMDB names another folder with it");
    return {};
}

/// An archive of 80 reviews of a few words each, of which good ones are favourable.
void write_archive(const std::filesystem::path& folder)
{
    const char* const words[] = {"film", "plot", "actor", "scene", "music"};
    for (const std::string part : {"train", "test"})
        for (const std::string kind : {"neg", "pos"}) {
            std::filesystem::create_directories(folder / part / kind);
            for (std::size_t i = 0; i < 20; ++i)
                std::ofstream(folder / part / kind / (std::to_string(i) + "_5.txt"))
                    << "the " << words[i % 5] << " is " << (kind == "pos" ? "good" : "bad") << ", and the "
                    << words[(i + 2) % 5];
        }
}

/// Command lines of a training on these reviews.
struct SmallExperiment {
    SmallExperiment()
    {
        write_archive(folder / "archive");
        prepare_reviews(folder / "archive", folder / "data");
    }

    Ended run(const std::vector<std::string>& flags) const
    {
        std::vector<std::string> words{training_lesson, "--data", folder / "data"};
        words.insert(words.end(), flags.begin(), flags.end());
        return ::run(words);
    }

    TemporaryFolder folder;
};

} // namespace

TEST_CASE("a training on reviews that goes on from a checkpoint ends with the same weights, bit for bit",
          "[lessons][train]")
{
    const SmallExperiment experiment;
    const TemporaryFolder& folder = experiment.folder;
    const Ended whole =
        experiment.run({"--epochs", "4", "--threads", "1", "--positions", "--save", folder / "whole.safetensors"});
    REQUIRE(whole.errors == "");
    REQUIRE(whole.code == 0);
    CHECK_THAT(whole.output, ContainsSubstring("epoch 4: loss"));
    const std::string checkpoint = folder / "c.npz";
    CHECK(experiment.run({"--epochs", "2", "--positions", "--checkpoint", checkpoint}).code == 0);
    const Ended rest = experiment.run({"--epochs", "4", "--threads", "2", "--positions", "--resume", checkpoint,
                                       "--save", folder / "rest.safetensors"});
    CHECK_THAT(rest.output, ContainsSubstring("goes on after step 4"));
    CHECK(rest.output.substr(rest.output.find("What was published")) ==
          whole.output.substr(whole.output.find("What was published")));
    CHECK(bytes_of(folder / "rest.safetensors") == bytes_of(folder / "whole.safetensors"));

    const Ended other = experiment.run({"--epochs", "4", "--resume", checkpoint});
    CHECK(other.code == 2);
    CHECK_THAT(other.errors, ContainsSubstring("is the checkpoint of a training with seed 1, with positions"));
    std::filesystem::resize_file(checkpoint, 1000);
    const Ended damaged = experiment.run({"--epochs", "4", "--positions", "--resume", checkpoint});
    CHECK(damaged.code == 2);
    CHECK(lines_in(damaged.errors) == 1);
}

TEST_CASE("a training on reviews refuses a checkpoint that can't be its own, and saves no weights that have diverged",
          "[lessons][train]")
{
    const SmallExperiment experiment;
    const TemporaryFolder& folder = experiment.folder;
    const std::string checkpoint = folder / "c.npz", recipe = "seed 1, without positions, batches of 32";
    REQUIRE(experiment.run({"--epochs", "1", "--checkpoint", checkpoint}).code == 0);
    const Checkpoint whole = read_checkpoint(checkpoint, recipe);
    const auto resumed = [&](const Checkpoint& changed) {
        write_checkpoint(checkpoint, changed, recipe);
        const std::string before = bytes_of(checkpoint);
        const Ended ended =
            experiment.run({"--epochs", "2", "--resume", checkpoint, "--save", folder / "w.safetensors"});
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK_FALSE(std::filesystem::exists(folder / "w.safetensors"));
        CHECK(bytes_of(checkpoint) == before);
        return ended.errors;
    };
    std::vector<std::pair<std::size_t, double>> wrong{{0, 2.5}, {whole.progress.size() - 1, 1e300}};
    for (std::size_t i = 0; i < whole.progress.size(); ++i)
        wrong.emplace_back(i, -1);
    for (const auto& [i, number] : wrong) {
        Checkpoint changed = whole;
        changed.progress[i] = number;
        CAPTURE(i, number);
        CHECK_THAT(resumed(changed), ContainsSubstring("progress is not that of this training after 2 steps"));
    }
    for (const std::uint64_t steps : {std::uint64_t{5}, (std::uint64_t{1} << 53) - 1}) {
        Checkpoint changed = whole;
        changed.state.steps = steps;
        CHECK_THAT(resumed(changed), ContainsSubstring("expected 2 numbers and 4 per epoch, found 6"));
    }
    Checkpoint changed = whole;
    std::ranges::fill(changed.state.weights, 1e38F);
    CHECK_THAT(resumed(changed), ContainsSubstring("training has diverged: the loss after 2 steps is"));
}

TEST_CASE("any step of a training on reviews is a trace that verifies, Adam's update included",
          "[lessons][train][audit]")
{
    const SmallExperiment experiment;
    const std::string file = experiment.folder / "step.npz";
    const Ended ended = experiment.run({"--epochs", "2", "--trace-step", "3", "--step-trace", file});
    REQUIRE(ended.errors == "");
    REQUIRE(ended.code == 0);
    const Recording recording = read_trace(file);
    CHECK(verify(recording).passed());
    for (const char* path : {"loss", "grad.table", "adam.table.after", "adam.attention.query_weights.after"})
        CHECK(std::ranges::count(recording.steps, path, &Step::path) == 1);
}

TEST_CASE("lesson 15 refuses in one line what it can't use", "[lessons][train]")
{
    const SmallExperiment experiment;
    const TemporaryFolder& folder = experiment.folder;
    const auto refused = [&](const Ended& ended, const std::string& why) {
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK_THAT(ended.errors, ContainsSubstring(why));
    };
    refused(run({training_lesson, "--data", folder / "nothing"}), "x_train_20000_80.npy: cannot be read");
    refused(run({training_lesson, "--data", folder / "new", "--prepare", folder / "data"}),
            "neg: has no texts such as");
    refused(run({training_lesson, "--positions"}), "--positions is about the film reviews: give --data FOLDER, too");
    refused(run({training_lesson, "--trace-step", "1", "--steps", "1"}),
            "--trace-step K and --step-trace FILE.npz need each other");
    refused(experiment.run({"--epochs", "1", "--trace-step", "9", "--step-trace", folder / "t.npz"}),
            "the training has taken other steps only, up to 2");
    refused(experiment.run({"--steps", "3"}), "--steps and --history are about the small model");
    for (const std::vector<std::string>& flag :
         std::vector<std::vector<std::string>>{{"--rate", "0.01"}, {"--warm-up", "0"}, {"--label-smoothing", "0.1"}})
        refused(experiment.run(flag), "--rate, --warm-up and --label-smoothing are about the small model");
    refused(run({training_lesson, "--steps", "1", "--rate", "0"}), "--rate: expected a number above 0");
    refused(run({training_lesson, "--steps", "1", "--rate", "nan"}), "--rate: nan is not a finite number");
    refused(run({training_lesson, "--steps", "1", "--label-smoothing", "1"}),
            "--label-smoothing: expected 0, or a share below 1");
    refused(experiment.run({"--epochs", "1", "--checkpoint", "/dev/full"}), "No space left on device");
    refused(experiment.run({"--resume", "a.npz", "--checkpoint", "b.npz"}), "give one of them");
    std::ofstream(folder / "data/vocab_by_train_frequency.json") << R"(["the", "is", "and"])";
    refused(experiment.run({}), "is 9, expected from 0 to 6, the last word of vocab_by_train_frequency.json");
    std::ofstream(folder / "data/y_train.npy", std::ios::app) << 'x';
    refused(experiment.run({}), "y_train.npy");
}

TEST_CASE("one epoch on the film reviews ends near the published accuracy", "[lessons][train][slow]")
{
    const std::filesystem::path data = real_reviews();
    if (data.empty())
        return;
    const TemporaryFolder folder;
    const Ended ended = run({training_lesson, "--data", data, "--epochs", "1", "--checkpoint", folder / "c.npz"});
    REQUIRE(ended.code == 0);
    const std::vector<double> progress =
        read_checkpoint(folder / "c.npz", "seed 1, without positions, batches of 32").progress;
    REQUIRE(progress.size() == 6);
    CHECK(std::abs(progress[5] - 0.8430) < 0.015); // test accuracy; seeds differ by 0.005
    CHECK(std::abs(progress[4] - 0.3541) < 0.02);  // test loss
}
