#include "attn/core/memory.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>

#ifdef __EMSCRIPTEN__
#include <emscripten/heap.h>
#endif
#include <sys/resource.h>
#include <unistd.h>

namespace attn {
namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// The first number in a file; unlimited where there is none, as in "max".
std::size_t number_in(const std::string& path)
{
    std::ifstream file(path);
    std::size_t number = 0;
    return file >> number ? number : unlimited;
}

std::size_t less(std::size_t limit, std::size_t used)
{
    return limit == unlimited ? unlimited : limit - std::min(limit, used);
}

/// What the machine has left, in bytes.
std::size_t left_on_machine()
{
#ifdef __EMSCRIPTEN__ // a page's machine
    return emscripten_get_heap_max() - emscripten_get_heap_size();
#endif
    std::ifstream file("/proc/meminfo");
    std::string word;
    for (std::size_t kibibytes = 0; file >> word;)
        if (word == "MemAvailable:")
            return file >> kibibytes ? kibibytes * 1024 : unlimited;
    return unlimited;
}

/// What the limits of this process leave.
std::size_t left_of_limits()
{
    std::array<std::size_t, 6> pages{}; // all, resident, shared, text, unused, data and stack
    std::ifstream file("/proc/self/statm");
    for (std::size_t& count : pages)
        file >> count;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const auto left = [&](auto resource, std::size_t used) {
        rlimit limit{};
        const bool is_limited = ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
        return is_limited ? less(limit.rlim_cur, used * page) : unlimited;
    };
    return std::min(left(RLIMIT_AS, pages[0]), left(RLIMIT_DATA, pages[5]));
}

/// What the control group leaves, in version 2 or 1; as a container sees its own.
std::size_t left_of_group()
{
    const std::string folder = "/sys/fs/cgroup/";
    return std::min(
        less(number_in(folder + "memory.max"), number_in(folder + "memory.current")),
        less(number_in(folder + "memory/memory.limit_in_bytes"), number_in(folder + "memory/memory.usage_in_bytes")));
}

} // namespace

std::size_t memory_left() { return std::min({left_on_machine(), left_of_limits(), left_of_group()}); }

std::string bytes_text(double bytes)
{
    constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < units.size(); ++unit)
        bytes /= 1024;
    char text[64];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : bytes < 1e6 ? "%.1f %s" : "%.3g %s", bytes, units[unit]);
    return text;
}

void expect_memory(std::string_view name, const Shape& shape, std::size_t element_size, std::size_t beside)
{
    // Asking the system takes longer than to make a small tensor, which it always has room for.
    constexpr double small = 1 << 24;
    double elements = 1;
    for (const std::size_t size : shape)
        elements *= static_cast<double>(size);
    const double bytes = elements * static_cast<double>(element_size);
    if (bytes <= small)
        return;
    const double needed = bytes + elements * static_cast<double>(beside);
    if (const std::size_t left = memory_left(); needed > static_cast<double>(left))
        throw Error(name, " would be ", shape, ", ", bytes_text(bytes), ", and there ", "is memory for ",
                    bytes_text(static_cast<double>(left)), ": give smaller inputs, or more memory");
}

} // namespace attn
