#pragma once

#include "call.hpp"

#include "attn/core/trace.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// What the kernels are given and what they compute, as steps. What a listener answers is what goes on.

namespace attn::fast {

/// Names rows of a kernel's as a step, and writes the answer back.
/// @param step  its label; that of (b, h, n) where `is_scalar`, for rows of one number
void tell_rows(const Trace& trace, std::string_view step, const std::string& formula, const HeadRows<float>& rows,
               bool is_scalar = false);

/// The same for a matrix.
/// @param stride  from row to row
void tell_matrix(const Trace& trace, std::string_view step, const std::string& formula, float* numbers,
                 std::size_t rows, std::size_t columns, std::size_t stride);

/// The same for one number per row.
void tell_numbers(const Trace& trace, std::string_view step, const std::string& formula, float* numbers,
                  std::size_t rows);

/// How rows follow from steps that lie one after the other: "reshape(concat(head.0.context, …, axis=0), 1, 2, 90, 8)".
std::string joined(const std::vector<std::string>& parts, const HeadRows<const float>& rows);

/// Rows as a listener has them. Without a listener they are those that were given.
class ToldRows {
public:
    /// @param formula  empty for an input
    ToldRows(const Trace& trace, std::string_view step, std::string_view formula, const HeadRows<const float>& given);
    ToldRows(const ToldRows&) = delete;

    /// What to go on with.
    const HeadRows<const float>& rows() const { return rows_; }

    /// Names the part of one head as a step; what is answered is in rows() from now on.
    /// @param name  of all rows
    void tell_head(const Trace& trace, std::string_view step, std::string_view name, std::size_t b, std::size_t head);

private:
    std::vector<float> answer_;
    HeadRows<const float> rows_;
};

/// How many scores there are: b, h, n, m.
inline std::array<std::size_t, 4> score_shape(const Const& queries, const Const& keys)
{
    return {queries.batch(), queries.heads(), queries.rows(), keys.rows()};
}

/// A mask or a bias as a listener has it, (b, h, n, m). Without a listener it is the one that was given.
template <class Number, class Container>
class ToldPerScore {
public:
    /// @param shape  b, h, n, m
    ToldPerScore(const Trace& trace, std::string_view step, const PerScore<Number>& given,
                 const std::array<std::size_t, 4>& shape)
        : scores_(given)
    {
        if (!given || !trace.has_listener())
            return;
        Container all(typename Container::shape_type{shape[0], shape[1], shape[2], shape[3]});
        auto to = all.begin();
        for (std::size_t b = 0; b < shape[0]; ++b)
            for (std::size_t h = 0; h < shape[1]; ++h)
                for (std::size_t i = 0; i < shape[2]; ++i)
                    to = std::copy_n(given.row(b, h, i), shape[3], to);
        const Container answer = trace.input(step, std::move(all));
        numbers_ = std::make_unique<Number[]>(answer.size());
        std::copy(answer.begin(), answer.end(), numbers_.get());
        scores_ = {numbers_.get(), {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]}};
    }

    const PerScore<Number>& get() const { return scores_; }

private:
    std::unique_ptr<Number[]> numbers_;
    PerScore<Number> scores_;
};

/// The options of the function, for its steps.
StepOptions options_of(const Scoring& scoring);

} // namespace attn::fast
