#include "src/cli/commands.hpp"

#include "attn/files/npz.hpp"

#include "scratch.hpp"
#include "targets.hpp"

#include <filesystem>
#include <sstream>

namespace attn::fuzz {
namespace {

/// Names of arrays that modules take, and files that hold them.
void put_files()
{
    const Array tokens{{3, 4}, {1, 0, -1, 2, 0.5, 1, 0, 1, -2, 1, 1, 0}}, square{{4, 4}, std::vector<double>(16, 0.25)};
    const Array mask{{3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1}, ElementType::boolean},
        large{{3, 4}, std::vector<double>(12, 1e155)};
    const auto put = [](const char* name, const files::NamedArrays& arrays) {
        files::write_npz(scratch(name), {{}, {arrays.begin(), arrays.end()}, {}});
    };
    put("attention.npz", {{"queries", tokens}, {"keys", tokens}, {"values", tokens}});
    put("masked.npz", {{"queries", tokens}, {"keys", tokens}, {"values", tokens}, {"mask", mask}});
    put("overflow.npz", {{"queries", large}, {"keys", large}, {"values", tokens}});
    put("x.npz", {{"x", tokens}});
    put("ids.npz", {{"ids", {{3}, {0, 2, 1}, ElementType::integer}}});
    put("w.npz", {{"weight", {{4}, {1, 1, 1, 1}}},
                  {"bias", {{4}, {0, 0, 0, 0}}},
                  {"linear1.weight", square},
                  {"linear1.bias", {{4}, {0, 0, 0, 0}}},
                  {"linear2.weight", square},
                  {"linear2.bias", {{4}, {0, 0, 0, 0}}},
                  {"in_proj_weight", {{12, 4}, std::vector<double>(48, 0.5)}},
                  {"in_proj_bias", {{12}, std::vector<double>(12)}},
                  {"out_proj.weight", square},
                  {"out_proj.bias", {{4}, {0, 0, 0, 0}}}});
}

/// True for a flag that a file follows.
bool is_file(const std::string& flag) { return flag == "--input" || flag == "--weights" || flag == "--trace"; }

/// Files are in a folder of their own; a word that leads out of it is left out.
std::vector<std::string> words_of(std::string_view bytes)
{
    constexpr std::size_t most = 24;
    std::vector<std::string> words{"attn", "run"};
    std::istringstream stream{std::string(bytes)};
    for (std::string word; words.size() < most && stream >> word;)
        if (word.find_first_of("/=") == std::string::npos && word.find("..") == std::string::npos &&
            word.find('\0') == std::string::npos)
            words.push_back(is_file(words.back()) ? scratch(word).string() : word);
    return words;
}

} // namespace

/// A command line of attn run: success, or a refusal.
void run(std::string_view bytes)
{
    static const bool is_ready = [] {
        put_files();
        return true;
    }();
    expect(is_ready, "no files");
    const std::vector<std::string> words = words_of(bytes);
    std::vector<const char*> argv;
    for (const std::string& word : words)
        argv.push_back(word.c_str());
    const cli::Command program{.name = "attn", .summary = "", .commands = {cli::run_command()}};
    const int code = cli::run_program(program, static_cast<int>(argv.size()), argv.data());
    expect(code == 0 || code == 2, "an exit code that means nothing");
    if (std::filesystem::exists(scratch("t.npz"))) { // what --trace t.npz wrote
        files::read_npz(scratch("t.npz"));
        std::filesystem::remove(scratch("t.npz"));
    }
}

} // namespace attn::fuzz
