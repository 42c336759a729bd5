// Tensors under the names that their reader expects.

#include "attn/files/weights/rename.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace attn::files {
namespace {

/// What stands between the stars: "layers.*.weight" is {"layers.", ".weight"}.
std::vector<std::string> between_stars(std::string_view pattern)
{
    std::vector<std::string> parts(1);
    for (const char c : pattern)
        if (c == '*')
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

struct Rename {
    std::string text; ///< "OLD=NEW"
    std::vector<std::string> from, to;
    bool fits_any = false;
};

Rename rename_of(const std::string& text)
{
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        throw Error("expected OLD=NEW, found " + text);
    Rename rename{text, between_stars(std::string_view(text).substr(0, equals)),
                  between_stars(std::string_view(text).substr(equals + 1))};
    if (rename.from.size() != rename.to.size())
        throw Error(text + " has " + std::to_string(rename.from.size() - 1) + " * before the = and " +
                    std::to_string(rename.to.size() - 1) + " after it, expected as many");
    return rename;
}

/// A name with the new parts in place of the old ones; each star takes as little as it can, the last one the rest.
std::optional<std::string> renamed(std::string_view name, const Rename& rename)
{
    const auto& [text, from, to, fits_any] = rename;
    if (from.size() == 1)
        return name == from.front() ? std::optional(to.front()) : std::nullopt;
    const std::string &first = from.front(), &last = from.back();
    if (name.size() < first.size() + last.size() || !name.starts_with(first) || !name.ends_with(last))
        return std::nullopt;
    std::string_view rest = name.substr(first.size(), name.size() - first.size() - last.size());
    std::string result = to.front();
    for (std::size_t i = 1; i + 1 < from.size(); ++i) {
        const std::size_t at = rest.find(from[i]);
        if (at == std::string_view::npos)
            return std::nullopt;
        result += std::string(rest.substr(0, at)) + to[i];
        rest.remove_prefix(at + from[i].size());
    }
    return result + std::string(rest) + to.back();
}

} // namespace

NamedArrays rename_tensors(NamedArrays arrays, const std::vector<std::string>& renames)
{
    std::vector<Rename> all;
    std::ranges::transform(renames, std::back_inserter(all), rename_of);
    NamedArrays result;
    for (auto& [name, array] : arrays) {
        std::string known = name;
        for (Rename& rename : all)
            if (const auto other = renamed(name, rename)) {
                rename.fits_any = true;
                known = *other;
                break;
            }
        if (!result.emplace(known, std::move(array)).second)
            throw Error("two tensors would be called " + known + ", one of them " + name);
    }
    for (const Rename& rename : all)
        if (!rename.fits_any)
            throw Error(rename.text + " fits no tensor, or only those that an earlier rename fits" +
                        (arrays.empty() ? "" : "; the first tensor is " + arrays.begin()->first));
    return result;
}

} // namespace attn::files
