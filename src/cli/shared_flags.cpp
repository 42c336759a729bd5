#include "attn/cli/shared_flags.hpp"

#include "attn/core/error.hpp"

#include <system_error>

namespace attn::cli {

FlagGroup intervention_flags(mistakes::InterventionFlags& flags)
{
    Choices<mistakes::Precision> precisions;
    for (const mistakes::Precision precision :
         {mistakes::Precision::float32, mistakes::Precision::bfloat16, mistakes::Precision::float16})
        precisions.emplace_back(name_of(precision), precision);
    return {"What if",
            {{"--round", "", one_of(flags.round, precisions), "round every number that is given or computed"},
             {"--ablate", "STEP", flags.ablate, "make a step zero"},
             {"--pitfall", "ID", flags.pitfall, "make a well-known mistake; attn pitfalls lists them"}}};
}

FlagGroup screen_flags(show::ConsoleFlags& flags)
{
    return {"On the screen",
            {{"--precision", "DIGITS", whole_number(flags.precision, 0, 17), "digits after the point"},
             {"--color", "", one_of(flags.color, {{"auto", "auto"}, {"always", "always"}, {"never", "never"}}),
              "print names bold and formulas dim"},
             {"--quiet", "", flags.quiet, "print nothing but errors"}}};
}

Flag budget_flag(std::optional<std::size_t>& size)
{
    return {
        "--budget", "N", whole_number(size, 1, 1'000'000),
        "end where the trace takes more than N billion operations, or N GiB of numbers at a time (default: 3, and 96 "
        "for each GiB of the file)"};
}

Budget budget_for(const std::optional<std::size_t>& asked, std::initializer_list<std::filesystem::path> files)
{
    constexpr double per_gibibyte = 96, gibibyte = 1 << 30;
    double bytes = 0;
    for (const std::filesystem::path& file : files) {
        std::error_code unreadable; // which is said when it is read
        const std::uintmax_t size = std::filesystem::file_size(file, unreadable);
        bytes += unreadable ? 0 : static_cast<double>(size);
    }
    return Budget(asked.value_or(Budget::usual_size + static_cast<std::size_t>(per_gibibyte * bytes / gibibyte)));
}

void expect_not_replaced(std::string_view flag, const std::filesystem::path& written,
                         std::initializer_list<std::filesystem::path> read)
{
    for (const std::filesystem::path& source : read) {
        std::error_code missing;
        if (!written.empty() && std::filesystem::equivalent(written, source, missing))
            throw Error(flag, " would replace ", source.string(), ", which is read");
    }
}

} // namespace attn::cli
