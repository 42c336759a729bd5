#include "plain_line.hpp"

#include "attn/files/file.hpp"

namespace attn::show {

std::string plain_line(std::string_view text, std::size_t longest)
{
    std::string line = printable(text, longest);
    for (const std::string_view banned : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) // U+FFFE and U+FFFF
        for (std::size_t at = line.find(banned); at != std::string::npos; at = line.find(banned, at))
            line.replace(at, banned.size(), "?");
    return line;
}

} // namespace attn::show
