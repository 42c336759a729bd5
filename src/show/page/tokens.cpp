#include "attn/show/page/view.hpp"

#include "attn/core/utf8.hpp"
#include "attn/files/file.hpp"

namespace attn::show {

std::vector<std::string> read_tokens(const std::filesystem::path& path)
{
    std::ifstream file = files::open_file(path, "a text file, one token per line");
    std::vector<std::string> tokens;
    std::string line;
    while (file && std::getline(file, line)) {
        if (line.ends_with('\r'))
            line.pop_back();
        if (!is_utf8(line))
            throw files::FileError(path, "has bytes that are not UTF-8 in line " + std::to_string(tokens.size() + 1));
        tokens.push_back(line);
    }
    if (file.bad() || (tokens.empty() && !file.eof()))
        throw files::FileError(path, "can't be read; expected a text file, one token per line");
    if (tokens.empty())
        throw files::FileError(path, "is empty; expected one token per line");
    return tokens;
}

} // namespace attn::show
