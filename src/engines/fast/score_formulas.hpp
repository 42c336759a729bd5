#pragma once

#include "call.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace attn::fast {

inline std::string text(std::size_t number) { return std::to_string(number); }
inline std::string range(std::size_t first, std::size_t count) { return text(first) + ":" + text(first + count); }

/// How the scores of a tile of queries follow from the steps around them, for the keys [from, from + columns).
class ScoreFormulas {
public:
    /// @param first, rows  the queries
    ScoreFormulas(const Scoring& scoring, const Const& queries, const Const& keys, std::size_t b, std::size_t head,
                  std::size_t first, std::size_t rows);

    /// The part of an argument (b, h, n, ...) that belongs to these queries: "queries[0, 1, 60:90]".
    std::string rows_of(std::string_view argument) const;

    struct Named {
        std::string step, formula;
    };
    /// The finished scores, `scaled` or `masked`, with `scores` as the products.
    Named finished(std::size_t from, std::size_t columns) const;

    /// The gradient of the products queries @ keys.T: the given gradient of the finished scores, times the scale and what the
    /// softcap's derivative is.
    std::string derivative(std::string_view grad_finished) const;

    std::size_t first() const { return first_; }
    std::size_t rows() const { return rows_; }

private:
    std::string scaled() const;
    std::string unmasked(std::size_t from, std::size_t columns) const;
    std::string mask(std::size_t from, std::size_t columns) const;
    std::string per_score(std::string_view argument, std::size_t from, std::size_t columns) const;

    const Scoring& scoring_;
    Positions positions_;
    std::size_t b_, head_, first_, rows_;
};

/// How rows follow from steps that lie one after the other: "reshape(concat(head.0.context, …, axis=0), 1, 2, 90, 8)".
std::string joined_formula(const std::vector<std::string>& parts, const Const& rows);

std::string zeros_formula(std::size_t rows, std::size_t columns);

/// The options of the function, for its steps.
StepOptions describe(const Scoring& scoring);

} // namespace attn::fast
