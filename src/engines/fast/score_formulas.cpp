#include "score_formulas.hpp"

#include "attn/core/array.hpp"
#include "attn/reference/attention/scale.hpp"

namespace attn::fast {
namespace {

std::string keys_formula(std::size_t from, std::size_t columns)
{
    return "arange(" + text(columns) + ") + " + text(from);
}

/// The positions of some queries, as a column.
std::string queries_formula(std::size_t rows, long first)
{
    return "arange(" + text(rows) + ")[:, None] + " + std::to_string(first);
}

} // namespace

ScoreFormulas::ScoreFormulas(const Scoring& scoring, const Const& queries, const Const& keys, std::size_t b,
                             std::size_t head, std::size_t first, std::size_t rows)
    : scoring_(scoring),
      positions_(scoring, b, queries.rows(), keys.rows()),
      b_(b),
      head_(head),
      first_(first),
      rows_(rows)
{
}

std::string ScoreFormulas::rows_of(std::string_view argument) const
{
    return std::string(argument) + "[" + text(b_) + ", " + text(head_) + ", " + range(first_, rows_) + "]";
}

std::string ScoreFormulas::per_score(std::string_view argument, std::size_t from, std::size_t columns) const
{
    return std::string(argument) + "[" + text(b_) + ", " + text(head_) + ", " + range(first_, rows_) + ", " +
           range(from, columns) + "]";
}

std::string ScoreFormulas::scaled() const { return scale_formula(scoring_.scale); }

std::string ScoreFormulas::unmasked(std::size_t from, std::size_t columns) const
{
    std::string formula = scaled();
    if (scoring_.softcap)
        formula = exact_text(*scoring_.softcap) + " * tanh(" + formula + " / " + exact_text(*scoring_.softcap) + ")";
    if (!scoring_.alibi_slopes.empty())
        formula += " - " + exact_text(scoring_.alibi_slopes[head_]) + " * abs(" +
                   queries_formula(rows_, positions_.of_alibi(first_)) + " - (" + keys_formula(from, columns) + "))";
    if (scoring_.bias)
        formula += " + " + per_score("bias", from, columns);
    return formula;
}

/// Where the queries can attend; empty: anywhere.
std::string ScoreFormulas::mask(std::size_t from, std::size_t columns) const
{
    std::string formula;
    const auto add = [&](const std::string& allowed) { formula += (formula.empty() ? "" : " & ") + allowed; };
    const auto limit = [&](const char* comparison, long moved) {
        add("(" + keys_formula(from, columns) + " " + comparison + " " +
            queries_formula(rows_, positions_.of_mask(first_) + moved) + ")");
    };
    if (scoring_.causal)
        limit("<=", 0);
    if (scoring_.window.left)
        limit(">=", -static_cast<long>(*scoring_.window.left));
    if (scoring_.window.right)
        limit("<=", static_cast<long>(*scoring_.window.right));
    if (from + columns > positions_.length())
        add("(" + keys_formula(from, columns) + " < " + text(positions_.length()) + ")");
    if (scoring_.mask)
        add(per_score("mask", from, columns));
    return formula;
}

ScoreFormulas::Named ScoreFormulas::finished(std::size_t from, std::size_t columns) const
{
    const std::string allowed = mask(from, columns);
    if (allowed.empty())
        return {"scaled", unmasked(from, columns)};
    return {"masked", "where(" + allowed + ", " + unmasked(from, columns) + ", -inf)"};
}

std::string ScoreFormulas::derivative(std::string_view grad_finished) const
{
    if (!scoring_.softcap)
        return scale_formula(scoring_.scale, grad_finished);
    return scale_formula(scoring_.scale, grad_finished) + " * (1 - tanh(" + scaled() + " / " +
           exact_text(*scoring_.softcap) + ")**2)";
}

std::string zeros_formula(std::size_t rows, std::size_t columns)
{
    return "reshape(0.0 * arange(" + text(rows * columns) + "), " + text(rows) + ", " + text(columns) + ")";
}

std::string joined_formula(const std::vector<std::string>& parts, const Const& rows)
{
    std::string all = parts.empty() ? "0.0 * arange(0)" : "concat(";
    for (const std::string& part : parts)
        all += part + ", ";
    all += parts.empty() ? "" : "axis=0)";
    for (const std::size_t size : rows.shape)
        all += ", " + text(size);
    return "reshape(" + all + ")";
}

StepOptions describe(const Scoring& scoring)
{
    StepOptions options{{"type", "float32"}, {"scale", describe_scale(scoring.scale)}};
    if (scoring.softcap)
        options.emplace_back("softcap", exact_text(*scoring.softcap));
    return options;
}

} // namespace attn::fast
