#include "attn/files/tokenizer.hpp"

#include "attn/core/utf8.hpp"

#include "scratch.hpp"
#include "targets.hpp"

namespace attn::fuzz {

void tokenizer(std::string_view bytes)
{
    const files::Tokenizer vocabulary = files::read_tokenizer(scratch("tok.json", bytes));
    expect(vocabulary.size() >= 3, "a vocabulary without its marks");

    // What was read is a text as well as any.
    const std::vector<std::size_t> ids = vocabulary.encode(bytes);
    expect(ids.front() == files::Tokenizer::begin, "a text without its beginning");
    for (const std::size_t id : ids) {
        expect(id < vocabulary.size(), "a token that there is not");
        expect(files::label_of(vocabulary, id).find('\n') == std::string::npos, "a label of two lines");
    }
    must_succeed([&] { return printable_lines(vocabulary.decode(ids)); });
}

} // namespace attn::fuzz
