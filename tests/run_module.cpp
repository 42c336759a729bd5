#include "run_module.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace attn::test {

Words words_of(const std::string& text)
{
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), {}};
}

cli::Module module_of(const std::string& name)
{
    for (cli::Module& module : cli::modules())
        if (module.name == name)
            return std::move(module);
    throw std::out_of_range(name);
}

void run_module(const Words& words, const files::NamedArrays& input, const files::NamedArrays& weights,
                const Trace& trace)
{
    const cli::Module module = module_of(words.at(0));
    for (std::size_t i = 1; i < words.size(); ++i) {
        const auto flag = std::ranges::find(module.flags, words[i], &cli::Flag::name);
        if (flag == module.flags.end())
            throw std::out_of_range(module.name + " has no flag " + words[i]);
        flag->value.take(flag->value.takes_text ? words.at(++i) : "");
    }
    module.check(!weights.empty());
    const cli::Inputs inputs(input, module);
    files::NamedArrays taken = weights;
    std::vector<files::Parameter> learned;
    const std::filesystem::path no_file;
    module.run({inputs, taken, trace, learned, no_file, false});
}

} // namespace attn::test
