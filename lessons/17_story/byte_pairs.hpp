#pragma once

// How a vocabulary of byte pairs is learned.

#include "../lesson.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

namespace attn {

using TokenPair = std::array<std::int64_t, 2>;

/// The most frequent pair of neighbours; of equally frequent ones, the first in the text.
/// A pair whose right token begins a word is not counted: no token spans two words.
inline TokenPair most_frequent(const Integers& ids, const std::set<std::int64_t>& begins)
{
    //! [most_frequent]
    std::map<TokenPair, int> counts;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
        if (!begins.contains(ids(i + 1)))
            ++counts[{ids(i), ids(i + 1)}];
    TokenPair best{};
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
        if (const TokenPair pair{ids(i), ids(i + 1)}; counts[pair] > counts[best])
            best = pair;
    //! [most_frequent]
    return best;
}

/// The text with one token in place of each occurrence of the pair.
inline Integers joined(const Integers& ids, const TokenPair& pair, std::int64_t token)
{
    std::vector<std::int64_t> result;
    //! [joined]
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool fits =
            i + 1 < ids.size() && ids(i) == pair[0] && ids(i + 1) == pair[1];
        result.push_back(fits ? token : ids(i));
        i += fits ? 1 : 0;
    }
    //! [joined]
    Integers after(Integers::shape_type{result.size()});
    std::ranges::copy(result, after.begin());
    return after;
}

/// Learns so many tokens from a text, each from the most frequent pair, and says what each is.
inline void learn_byte_pairs(Lesson& lesson, const std::string& text, std::size_t merges)
{
    const Trace trace = lesson.trace().scope("byte_pairs");
    Integers ids(Integers::shape_type{text.size()});
    for (std::size_t i = 0; i < text.size(); ++i)
        ids(i) = static_cast<unsigned char>(text[i]);
    ids = trace("bytes[n]", "", ids);
    std::map<std::int64_t, std::string> texts;
    for (const std::int64_t byte : ids)
        texts[byte] = std::string(1, static_cast<char>(byte));
    std::set<std::int64_t> begins{' '};
    std::string before = "bytes";
    for (std::size_t k = 1; k <= merges; ++k) {
        const Trace merge = trace.scope("merge", k);
        //! [merge]
        const TokenPair pair = most_frequent(ids, begins);
        const Integers sides = merge("pair[side]", "", Integers{pair[0], pair[1]});
        const std::int64_t token = merge("token", "", 255 + static_cast<std::int64_t>(k));
        //! [merge]
        std::int64_t count = 0;
        for (std::size_t i = 0; i + 1 < ids.size(); ++i)
            count += ids(i) == sides(0) && ids(i + 1) == sides(1) ? 1 : 0;
        count = merge("count",
                      "sum(where((" + before + "[:-1] == pair[0]) & (" + before +
                          "[1:] == pair[1]), 1, 0))",
                      count);
        ids = merge("ids[n]", "", joined(ids, {sides(0), sides(1)}, token));
        texts[token] = texts[sides(0)] + texts[sides(1)];
        if (begins.contains(sides(0)))
            begins.insert(token);
        lesson.say("token " + std::to_string(token) + " is \"" + texts[token] + "\", " +
                   std::to_string(count) + " times; the text has " +
                   std::to_string(ids.size()) + " tokens now");
        before = "merge." + std::to_string(k) + ".ids";
    }
}

} // namespace attn
