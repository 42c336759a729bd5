#include "attn/reference/models/sampling.hpp"

#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/softmax.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace attn {
namespace {

void expect_options(const Matrix& logits, const SamplingOptions& options);
Term<Matrix> mass_before(const Trace& trace, const Term<Matrix>& chances);
void expect_guesses(const Integers& drafted, const Matrix& draft, const Matrix& target, const Vector& uniform);
Term<Matrix> one_hot_rows(const Trace& trace, const Integers& drafted, std::size_t vocabulary);
std::size_t first_rejected(const Trace& trace, const Term<Vector>& uniform, const Term<Vector>& acceptance);

} // namespace

Matrix token_probabilities(const Matrix& given, const SamplingOptions& options, const Trace& trace)
{
    expect_options(given, options);
    const auto [temperature, top_k_of, top_p, min_p] = options;
    const bool cuts = top_p < 1 || min_p > 0;

    // Divide; at temperature 0 only the most likely token is left.
    const Term logits = trace.input("logits[n, vocabulary]", Term(given));
    const Term<Matrix> zero(Matrix(given.shape(), 0.0), trace.worded("0"));
    const Term scaled = trace("scaled[n, vocabulary]",
                              temperature == 0 ? where(top_k(logits, 1), zero, minus_infinity) : logits / temperature);

    // Cut all but the k most likely tokens.
    Term left = scaled;
    if (top_k_of) {
        const Term among_k = trace("among_k[n, vocabulary]", top_k(scaled, *top_k_of));
        left = trace("left[n, vocabulary]", where(among_k, scaled, minus_infinity));
    }
    const Term chances = trace(cuts ? "chances[n, vocabulary]" : "probabilities[n, vocabulary]", softmax(left));
    if (!cuts)
        return *chances;

    // Cut the tokens behind the nucleus, and those that are far below the most likely one.
    std::vector<Term<Mask>> kept;
    if (top_p < 1)
        kept.push_back(trace("in_nucleus[n, vocabulary]", mass_before(trace, chances) < top_p));
    if (min_p > 0)
        kept.push_back(trace("likely[n, vocabulary]", chances >= min_p * max_along(chances, -1, keepdims)));
    const Term<Mask> mask = kept.size() == 1 ? kept.front() : kept.front() & kept.back();
    const Term share = trace("kept[n, vocabulary]", where(mask, chances, 0));
    return *trace("probabilities[n, vocabulary]", share / sum_along(share, -1, keepdims));
}

Speculation speculate(const Integers& tokens, const Matrix& of_draft, const Matrix& of_target, const Vector& numbers,
                      const Trace& trace)
{
    expect_guesses(tokens, of_draft, of_target, numbers);
    const std::size_t guesses = tokens.size();
    const Term drafted = trace.input("drafted[guesses]", Term(tokens));
    const Term draft = trace.input("draft[guesses, vocabulary]", Term(of_draft));
    const Term target = trace.input("target[n, vocabulary]", Term(of_target));
    const Term uniform = trace.input("uniform[guesses]", Term(numbers));

    // How likely the draft and the target think each drafted token is.
    const Term is_drafted = one_hot_rows(trace, *drafted, draft.shape(1));
    const Term q = trace("q[guesses]", sum_along(is_drafted * draft, 1));
    const Term p = trace("p[guesses]", sum_along(is_drafted * slice(target, 0, guesses), 1));

    // Accept each with that ratio, up to the first that is rejected.
    const Term acceptance = trace("acceptance[guesses]", minimum(p / q, 1));
    const std::size_t accepted = first_rejected(trace, uniform, acceptance);
    if (accepted == guesses)
        return {accepted, *trace("next[vocabulary]", row(target, accepted))};

    // In its place comes what the target gives more than the draft.
    const Term excess = trace("excess[vocabulary]", relu(row(target, accepted) - row(draft, accepted)));
    const Term all = sum_all(excess);
    if (*all == 0) // the two are the same but for rounding
        return {accepted, *trace("next[vocabulary]", row(target, accepted))};
    return {accepted, *trace("next[vocabulary]", excess / all)};
}

std::size_t argmax(const Vector& logits)
{
    std::size_t best = 0;
    for (std::size_t token = 0; token < logits.size(); ++token) {
        if (std::isnan(logits(token)))
            throw Error("the logit of token " + std::to_string(token) + " is NaN: no next token can be chosen");
        if (logits(token) > logits(best))
            best = token;
    }
    return best;
}

std::size_t sample(const Vector& logits, double temperature, RandomNumbers& numbers)
{
    if (!(temperature >= 0) || !std::isfinite(temperature))
        throw Error("a temperature is a number from 0, not " + exact_text(temperature));
    const std::size_t likeliest = argmax(logits);
    if (temperature == 0)
        return likeliest;

    // Relative to the largest, so that no temperature is too small to divide by.
    const Vector probabilities = softmax(Vector((logits - logits(likeliest)) / temperature));
    return draw(probabilities, (numbers.next() + 1) / 2);
}

std::size_t draw(const Vector& probabilities, double number)
{
    if (!(number >= 0 && number < 1))
        throw Error("draw: a token is drawn by a number from 0 and below 1, not " + exact_text(number));
    std::optional<std::size_t> drawn;
    double left = number;
    for (std::size_t token = 0; token < probabilities.size(); ++token) {
        const double share = probabilities(token);
        if (!(share >= 0))
            throw Error("draw: the probability of token " + std::to_string(token) + " is " + exact_text(share) +
                        ", expected one from 0");
        if (share == 0 || left < 0)
            continue;
        drawn = token; // the last of them where the sum is less than the number, by rounding
        left -= share;
    }
    if (!drawn)
        throw Error("draw: no token has a probability above 0");
    return *drawn;
}

namespace {

void expect_options(const Matrix& logits, const SamplingOptions& options)
{
    const auto& [temperature, top_k_of, top_p, min_p] = options;
    const auto refuse = [](const std::string& name, const std::string& range, const std::string& found) {
        throw Error("token_probabilities: " + name + " is " + found + ", expected " + range);
    };
    if (!(temperature >= 0) || !std::isfinite(temperature))
        refuse("temperature", "a number from 0", exact_text(temperature));
    if (top_k_of && (*top_k_of == 0 || *top_k_of > logits.shape(1)))
        refuse("top_k", "1 to " + std::to_string(logits.shape(1)) + ", the size of the vocabulary",
               std::to_string(*top_k_of));
    if (!(top_p > 0) || top_p > 1)
        refuse("top_p", "more than 0 and at most 1", exact_text(top_p));
    if (!(min_p >= 0) || min_p > 1)
        refuse("min_p", "0 to 1", exact_text(min_p));
    for (std::size_t i = 0; i < logits.shape(0); ++i) {
        bool can_come = false;
        for (std::size_t token = 0; token < logits.shape(1); ++token) {
            const double logit = logits(i, token);
            if (std::isnan(logit) || logit == -minus_infinity)
                refuse("the logit of token " + std::to_string(token) + " in row " + std::to_string(i),
                       "a number or minus infinity", exact_text(logit));
            can_come = can_come || logit > minus_infinity;
        }
        if (!can_come)
            throw Error("token_probabilities: in row " + std::to_string(i) +
                        " no token can come: there is no logit above " + "minus infinity");
    }
}

/// The sum of the chances of all tokens that are more likely than each.
Term<Matrix> mass_before(const Trace& trace, const Term<Matrix>& chances)
{
    // The formula compares all pairs of tokens; sorting gives the same sums.
    const auto formula = [] {
        return "sum(where((chances[:, None, :] > chances[:, :, None]) | ((chances[:, None, :] == chances[:, :, None]) "
               "& "
               "(arange(chances.shape[1]) < arange(chances.shape[1])[:, None])), chances[:, None, :], 0), axis=-1)";
    };
    Matrix before(chances->shape());
    std::vector<std::size_t> order(chances.shape(1));
    for (std::size_t i = 0; i < chances.shape(0); ++i) {
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::stable_sort(order,
                                 [&](std::size_t a, std::size_t b) { return (*chances)(i, a) > (*chances)(i, b); });
        double sum = 0;
        for (const std::size_t token : order) {
            before(i, token) = sum;
            sum += (*chances)(i, token);
        }
    }
    return trace("before[n, vocabulary]", formula, Term(std::move(before)));
}

void expect_guesses(const Integers& drafted, const Matrix& draft, const Matrix& target, const Vector& uniform)
{
    const std::size_t guesses = drafted.size(), vocabulary = draft.shape(1);
    if (guesses == 0 || draft.shape(0) != guesses || uniform.size() != guesses || target.shape(0) != guesses + 1 ||
        target.shape(1) != vocabulary)
        throw ShapeError("speculate: drafted " + to_string(shape_of(drafted)) + ", draft " +
                         to_string(shape_of(draft)) + ", target " + to_string(shape_of(target)) + " and uniform " +
                         to_string(shape_of(uniform)) +
                         " don't fit: for each drafted token there are a row of the draft, a row of the target and a "
                         "number, and the target has one row more, for the token after them");
    const auto refuse = [](const std::string& what, std::size_t i, double found, const char* expected) {
        throw Error("speculate: " + what + " " + std::to_string(i) + " is " + exact_text(found) + ", expected " +
                    expected);
    };
    for (const Matrix* model : {&draft, &target})
        for (std::size_t i = 0; i < model->size(); ++i)
            if (const double chance = model->data()[i]; !(chance >= 0) || !std::isfinite(chance))
                refuse(std::string("in row ") + std::to_string(i / vocabulary) +
                           (model == &draft ? " of the draft" : " of the target") + " the probability of token",
                       i % vocabulary, chance, "a probability: are these logits?");
    for (std::size_t i = 0; i < guesses; ++i) {
        if (!(uniform(i) >= 0 && uniform(i) < 1))
            refuse("number", i, uniform(i), "one from 0 and below 1");
        const std::int64_t token = drafted(i);
        if (token < 0 || token >= static_cast<std::int64_t>(vocabulary))
            refuse("drafted token", i, static_cast<double>(token), ("0 to " + std::to_string(vocabulary - 1)).c_str());
        if (draft(i, static_cast<std::size_t>(token)) == 0)
            throw Error("speculate: drafted token " + std::to_string(i) + ", " + std::to_string(token) +
                        ", has the probability 0 in the draft, so that it was not drawn with it");
    }
}

/// A row per drafted token: 1 at that token.
Term<Matrix> one_hot_rows(const Trace& trace, const Integers& drafted, std::size_t vocabulary)
{
    Matrix rows(Matrix::shape_type{drafted.size(), vocabulary}, 0.0);
    for (std::size_t i = 0; i < drafted.size(); ++i)
        rows(i, static_cast<std::size_t>(drafted(i))) = 1;
    const auto formula = [&] {
        return "where(arange(" + std::to_string(vocabulary) + ") == drafted[:, None], 1.0, 0.0)";
    };
    return trace("is_drafted[guesses, vocabulary]", formula, Term(std::move(rows)));
}

/// How many tokens stand before the first that is rejected.
std::size_t first_rejected(const Trace& trace, const Term<Vector>& uniform, const Term<Vector>& acceptance)
{
    const std::size_t guesses = uniform.size();
    std::size_t accepted = 0;
    while (accepted < guesses && (*uniform)(accepted) < (*acceptance)(accepted))
        ++accepted;
    const auto formula = [&] {
        const std::string k = std::to_string(guesses);
        return "min(where(uniform < acceptance, " + k + ", arange(" + k + ")))";
    };
    const std::int64_t found = *trace("accepted", formula, Term(static_cast<std::int64_t>(accepted)));
    return static_cast<std::size_t>(std::clamp<std::int64_t>(found, 0, static_cast<std::int64_t>(guesses)));
}

} // namespace

} // namespace attn
