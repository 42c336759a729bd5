#include "ranks.hpp"

#include "attn/core/error.hpp"
#include "attn/engines/mpi/packed_recording.hpp"
#include "attn/show/graph/process.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <system_error>

#include <unistd.h>

namespace attn {
namespace {

constexpr std::string_view flag = "--as-rank";
constexpr std::string_view error_prefix = "a rank ended: ";
constexpr const char* introduction = "rank %d is process %d\n";

/// Open MPI 4 and 5 ask for leave to run as root and with more ranks than cores; ranks
/// that wait leave the core to others. MPICH does all of that and ignores these names. To a
/// sanitizer, what MPI keeps to its end is a leak.
constexpr std::array<std::pair<const char*, const char*>, 8> environment{
    {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
     {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
     {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
     {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
     {"OMPI_MCA_mpi_yield_when_idle", "1"},
     {"LSAN_OPTIONS", "detect_leaks=0"},
     {"OMP_NUM_THREADS", "1"},
     {"OPENBLAS_NUM_THREADS", "1"}}};

/// The line, with words where the loader says the number of an error only: "Error 24".
std::string in_words(std::string line)
{
    constexpr std::string_view word = ": Error ";
    if (const std::size_t at = line.rfind(word); at != std::string::npos)
        if (const int error = std::atoi(line.c_str() + at + word.size()); error != 0)
            line.replace(at + 2, std::string::npos,
                         std::generic_category().message(error));
    return line;
}

/// The processes of the ranks, as they introduced themselves.
std::map<int, int> ranks_by_process(const std::string& errors)
{
    std::map<int, int> ranks;
    std::istringstream lines(errors);
    for (std::string line; std::getline(lines, line);)
        if (int rank = 0, process = 0;
            std::sscanf(line.c_str(), introduction, &rank, &process) == 2)
            ranks[process] = rank;
    return ranks;
}

/// The number after a word, where there is one.
std::optional<int> number_after(const std::string& text, std::string_view word)
{
    const std::size_t at = text.find(word);
    int number = 0;
    if (at == std::string::npos ||
        std::sscanf(text.c_str() + at + word.size(), " %d", &number) != 1)
        return std::nullopt;
    return number;
}

/// The rank that a signal ended, as Open MPI says it: "mpirun noticed that process rank 2
/// with PID 71 on node n exited on signal 9 (Killed)." Open MPI 5 breaks the line in it.
std::optional<std::string> ended_by_signal(std::string errors)
{
    std::ranges::replace(errors, '\n', ' ');
    const std::optional<int> signal = number_after(errors, "exited on signal"),
                             rank = number_after(errors, "that process rank");
    if (!rank || !signal)
        return std::nullopt;
    return "rank " + std::to_string(*rank) + " was ended by signal " +
           std::to_string(*signal) + " (" + ::strsignal(*signal) + ")";
}

/// Of all that mpirun and the ranks say, the line that says why they ended.
std::string reason(const show::ProcessResult& ended)
{
    std::istringstream lines(ended.errors);
    std::string first;
    for (std::string line; std::getline(lines, line);) {
        if (const std::size_t at = line.find(error_prefix); at != std::string::npos)
            return line.substr(at);
        if (line.find("can't go on") != std::string::npos)
            return line;
        if (int rank = 0, process = 0;
            first.empty() && line.find_first_not_of("- \t") != std::string::npos &&
            std::sscanf(line.c_str(), introduction, &rank, &process) != 2)
            first = line;
    }
    if (const std::optional<std::string> signal = ended_by_signal(ended.errors))
        return *signal;
    return first.empty() ? "exit code " + std::to_string(ended.code) : in_words(first);
}

/// What a process is doing, a letter as in ps: 'T' where it is stopped; nothing where it
/// has ended, or is none of this program's.
std::optional<char> state_of(int process)
{
    const std::filesystem::path folder = "/proc/" + std::to_string(process);
    std::error_code error;
    if (!std::filesystem::equivalent(folder / "exe", "/proc/self/exe", error))
        return std::nullopt;
    std::ifstream file(folder / "stat");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at = line.rfind(") "); // after the program's name
    return at + 2 < line.size() ? std::optional(line[at + 2]) : std::nullopt;
}

/// Why ranks can't answer, for those that can't: ": rank 2 is stopped".
std::string silent_ranks(const std::string& errors, std::size_t ranks)
{
    std::map<int, std::string> why;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        why[static_cast<int>(rank)] = " has not begun";
    for (const auto& [process, rank] : ranks_by_process(errors))
        why[rank] = state_of(process) == 'T' ? " is stopped" : "";
    std::string silent;
    for (const auto& [rank, what] : why)
        if (!what.empty())
            silent +=
                (silent.empty() ? ": rank " : ", rank ") + std::to_string(rank) + what;
    return silent;
}

std::size_t this_rank()
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return static_cast<std::size_t>(rank);
}

/// What rank 0 reads from its standard input, on every rank.
Recording given_to_all()
{
    std::string bytes;
    if (this_rank() == 0)
        bytes.assign(std::istreambuf_iterator<char>(std::cin), {});
    std::uint64_t size = bytes.size();
    MPI_Bcast(&size, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    bytes.resize(size);
    MPI_Bcast(bytes.data(), static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD);
    return mpi::unpack(bytes);
}

/// The standard output, for the result alone. What libraries print on theirs goes to the
/// standard error from now on: MPI's transports complain there.
std::FILE* take_output()
{
    const int kept = ::dup(STDOUT_FILENO);
    std::FILE* const file = kept < 0 ? nullptr : ::fdopen(kept, "wb");
    return file != nullptr && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 ? file : nullptr;
}

void write_result(const Recording& result, std::FILE* output)
{
    if (this_rank() != 0)
        return;
    const std::string bytes = mpi::pack(result);
    if (output == nullptr ||
        std::fwrite(bytes.data(), 1, bytes.size(), output) != bytes.size() ||
        std::fflush(output) != 0)
        throw Error("standard output can't be written");
}

/// The rank that somebody else's mpirun gave to this process, if there is one.
const char* rank_of_others()
{
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
        if (const char* rank = std::getenv(name))
            return rank;
    return nullptr;
}

} // namespace

Recording run_on_ranks(std::size_t ranks, const Recording& given,
                       std::chrono::seconds longest)
{
    for (const auto& [name, value] : environment)
        ::setenv(name, value, 0);
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    std::string silent;
    const show::ProcessResult ended = show::run_process(
        {ATTN_MPIEXEC, "-n", std::to_string(ranks), self, std::string(flag)},
        mpi::pack(given), longest,
        [&](const std::string& errors) { silent = silent_ranks(errors, ranks); });
    if (ended.end == show::ProcessResult::End::not_found)
        throw Error("mpirun is not there, expected it at " ATTN_MPIEXEC
                    "; script/bootstrap build installs it");
    if (ended.end == show::ProcessResult::End::too_slow)
        throw Error("the ranks did not end within " + std::to_string(longest.count()) +
                    " seconds" + silent + "; --limit SECONDS waits longer");
    if (ended.code != 0)
        throw Error(std::to_string(ranks) + " ranks can't run: " + reason(ended));
    return mpi::unpack(ended.output);
}

std::optional<int> run_as_rank(int argc, char** argv, RankWork work)
{
    if (argc != 2 || argv[1] != flag) {
        const char* const rank = rank_of_others();
        if (rank != nullptr && std::strcmp(rank, "0") == 0)
            std::fprintf(stderr,
                         "%s: starts its ranks itself, expected to be run without "
                         "mpirun; --ranks P says how many\n",
                         std::filesystem::path(argv[0]).filename().c_str());
        return rank == nullptr ? std::nullopt : std::optional(2);
    }
    if (const char* const rank = rank_of_others())
        std::fprintf(stderr, introduction, std::atoi(rank), static_cast<int>(::getpid()));
    std::FILE* const output = take_output();
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    try {
        write_result(work(given_to_all(), MPI_COMM_WORLD), output);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s%s\n", std::string(error_prefix).c_str(), error.what());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}

} // namespace attn
