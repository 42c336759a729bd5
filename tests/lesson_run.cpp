#include "lesson_run.hpp"

#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/trace_file.hpp"
#include "lessons/curriculum.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <stdexcept>

#include <unistd.h>

std::vector<std::string> lesson_topics()
{
    std::vector<std::string> topics;
    for (const attn::CurriculumEntry& entry : attn::curriculum())
        if (entry.built_with.empty() || ATTN_WITH_MPI)
            topics.emplace_back(entry.topic);
    return topics;
}

std::vector<std::string> lesson_command(const std::string& topic, const std::vector<std::string>& flags)
{
    std::vector<std::string> words{"lesson_" + topic};
    words.insert(words.end(), flags.begin(), flags.end());
    if (topic == "15_training")
        words.insert(words.end(), {"--steps", "30"});
    return words;
}

LessonRun lesson_run(const std::string& topic)
{
    const std::filesystem::path bin = ATTN_BIN_FOLDER, folder = bin.parent_path() / "lesson_runs";
    const std::filesystem::path trace = folder / (topic + ".npz"), output = folder / (topic + ".txt");
    const std::string program = "lesson_" + topic;
    std::filesystem::create_directories(folder);
    if (!exists(trace) || !exists(output) || last_write_time(output) < last_write_time(bin / program)) {
        const Ended ended = run(lesson_command(topic, {"--all", "--trace", trace}), {"TZ=Asia/Tokyo"});
        if (ended.code != 0 || !ended.errors.empty())
            throw std::runtime_error(program + " ended with " + std::to_string(ended.code) + ": " + ended.errors);
        const std::filesystem::path unfinished = output.string() + "." + std::to_string(getpid());
        std::ofstream(unfinished) << ended.output;
        std::filesystem::rename(unfinished, output);
    }
    return {trace, bytes_of(output)};
}

const attn::Recording& lesson_recording(const std::string& topic)
{
    static std::map<std::string, attn::Recording> recordings;
    const auto found = recordings.find(topic);
    return found != recordings.end()
               ? found->second
               : recordings.emplace(topic, attn::files::read_trace(lesson_run(topic).trace)).first->second;
}

attn::Recording of_one_process(attn::Recording recording)
{
    const auto is_of_ranks = [](const auto& named) {
        return named.path.starts_with("ring.") || named.path.starts_with("ulysses.") ||
               named.path.starts_with("layer.");
    };
    const auto is_across = [](const attn::Step& step) { return step.path == "ring.context"; };
    if (std::ranges::none_of(recording.steps, is_across)) // another lesson, which can have a scope of such a name
        return recording;
    std::erase_if(recording.steps, is_of_ranks);
    std::erase_if(recording.aliases, is_of_ranks);
    return recording;
}

TEST_CASE("every lesson runs once, for all tests that look at it", "[lessons][runs]")
{
    for (const std::string& topic : lesson_topics())
        DYNAMIC_SECTION(topic) { CHECK_NOTHROW(lesson_run(topic)); } // each a test of ctest's: tests/CMakeLists.txt
}
