#include "npy_header.hpp"

#include "attn/core/error.hpp"
#include "elements.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace attn::files {
namespace {

constexpr std::string_view blanks = " \t\n\r";

class HeaderParser {
public:
    explicit HeaderParser(std::string_view text) : text_(text), rest_(text) {}

    NpyHeader parse()
    {
        expect('{');
        while (!accept('}')) {
            entry();
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip_blanks();
        if (!rest_.empty())
            throw malformed("more after the dictionary");
        return {needed(descr_, "descr"), needed(fortran_order_, "fortran_order"), needed(shape_, "shape")};
    }

private:
    void entry()
    {
        const std::string key = quoted();
        expect(':');
        if (key == "descr")
            assign(descr_, key, element_type());
        else if (key == "fortran_order")
            assign(fortran_order_, key, boolean());
        else if (key == "shape")
            assign(shape_, key, tuple());
        else
            throw malformed("the unknown key '" + key + "'");
    }

    template <class T>
    void assign(std::optional<T>& value, const std::string& key, T found)
    {
        if (value)
            throw malformed("the key '" + key + "' twice");
        value = std::move(found);
    }

    template <class T>
    T needed(const std::optional<T>& value, const std::string& key) const
    {
        if (!value)
            throw malformed("no key '" + key + "'");
        return *value;
    }

    std::string element_type()
    {
        skip_blanks();
        if (rest_.starts_with('['))
            throw Error("holds records (a structured dtype); store each field as an array of its own");
        return quoted();
    }

    std::string quoted()
    {
        skip_blanks();
        if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"'))
            throw malformed("no quoted text where one was expected");
        const std::size_t end = rest_.find(rest_.front(), 1);
        if (end == std::string_view::npos)
            throw malformed("a quotation mark that is never closed");
        const std::string text(rest_.substr(1, end - 1));
        rest_.remove_prefix(end + 1);
        return text;
    }

    bool boolean()
    {
        if (accept("True"))
            return true;
        if (accept("False"))
            return false;
        throw malformed("neither True nor False for 'fortran_order'");
    }

    // A single size needs its comma: (3,) is a tuple, (3) is a number.
    Shape tuple()
    {
        Shape shape;
        expect('(');
        while (!accept(')')) {
            shape.push_back(size());
            if (accept(','))
                continue;
            if (shape.size() == 1)
                throw malformed("a shape of one axis without its comma");
            expect(')');
            break;
        }
        if (shape.size() > most_axes)
            throw malformed(std::to_string(shape.size()) + " axes, more than " + std::to_string(most_axes));
        return shape;
    }

    std::size_t size()
    {
        skip_blanks();
        std::size_t size = 0;
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
        if (error == std::errc::result_out_of_range)
            throw malformed("a size in 'shape' that is larger than any array");
        if (error != std::errc{})
            throw malformed("something in 'shape' that is no size");
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return size;
    }

    void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size())); }

    bool accept(std::string_view token)
    {
        skip_blanks();
        if (!rest_.starts_with(token))
            return false;
        rest_.remove_prefix(token.size());
        return true;
    }

    bool accept(char token) { return accept(std::string_view(&token, 1)); }

    void expect(char token)
    {
        if (!accept(token))
            throw malformed(std::string("no ") + token + " where one was expected");
    }

    Error malformed(const std::string& what) const
    {
        return Error("has a malformed .npy header: " + what + " in " + std::string(text_.substr(0, 120)));
    }

    std::string_view text_;
    std::string_view rest_;
    std::optional<std::string> descr_;
    std::optional<bool> fortran_order_;
    std::optional<Shape> shape_;
};

} // namespace

NpyHeader parse_npy_header(std::string_view text) { return HeaderParser(text).parse(); }

std::string to_text(const NpyHeader& header)
{
    return "{'descr': '" + header.descr + "', 'fortran_order': " + (header.fortran_order ? "True" : "False") +
           ", 'shape': " + to_string(header.shape) + ", }";
}

} // namespace attn::files
