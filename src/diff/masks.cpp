// Whether a program's mask forbids what the reference allows.

#include "masks.hpp"

#include "attn/formula/scope.hpp"
#include "name_rules.hpp"
#include "softmax.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace attn::diff {
namespace {

constexpr double large_negative = -1000; // added to scores, it leaves no weight

bool is_large_negative(double number) { return number <= large_negative; }

/// How many masks of n queries and m keys an array has, one after the other; 0 where it does not have that form.
struct Form {
    std::size_t count = 0, queries = 1, keys = 1; ///< one query where all queries have the same mask

    Form(const Shape& shape, std::size_t n, std::size_t m)
    {
        if (shape.empty() || shape.back() != m)
            return;
        keys = m;
        const std::size_t all = element_count(shape) / m;
        const bool has_queries = shape.size() > 1 && shape[shape.size() - 2] == n;
        queries = has_queries ? n : 1;
        count = all / queries;
    }
};

/// What a mask has to do.
enum class Demand {
    permit, ///< to forbid nothing that is allowed
    equal   ///< and to allow nothing that is forbidden
};

/// True where a mask does what is demanded, its entries along the axes in front belonging to the sequences by `sequence_of`.
template <class IsForbidden, class SequenceOf>
bool fulfils(Demand demand, const Array& mask, const Form& form, const Array& allowed, const IsForbidden& is_forbidden,
             const SequenceOf& sequence_of)
{
    const std::size_t m = form.keys, n = allowed.shape[allowed.rank() - 2];
    for (std::size_t i = 0; i < mask.size(); ++i) {
        const bool forbids = is_forbidden(mask.values[i]);
        const std::size_t key = i % m, query = i / m % form.queries, sequence = sequence_of(i / m / form.queries);
        for (std::size_t q = form.queries == 1 ? 0 : query; q < (form.queries == 1 ? n : query + 1); ++q)
            if (const bool allows = allowed.values[(sequence * n + q) * m + key] == 1;
                forbids ? allows : !allows && demand == Demand::equal)
                return false;
    }
    return true;
}

bool fulfils(Demand demand, const Array& mask, const Array& allowed, bool is_one_forbidden)
{
    const std::size_t n = allowed.shape[allowed.rank() - 2], m = allowed.shape.back();
    const std::size_t sequences = allowed.size() / (n * m);
    const Form form(mask.shape, n, m);
    const bool is_added = std::ranges::any_of(mask.values, is_large_negative);
    const auto is_forbidden = [&](double number) {
        return is_added ? is_large_negative(number) : (number == 1) == is_one_forbidden;
    };
    if (form.count == 1) {
        for (std::size_t sequence = 0; sequence < sequences; ++sequence)
            if (!fulfils(demand, mask, form, allowed, is_forbidden, [&](std::size_t) { return sequence; }))
                return false;
        return true;
    }
    const std::size_t copies = form.count / sequences; // one for each head, before or after the sequences
    return fulfils(demand, mask, form, allowed, is_forbidden, [&](std::size_t at) { return at / copies; }) ||
           fulfils(demand, mask, form, allowed, is_forbidden, [&](std::size_t at) { return at % sequences; });
}

} // namespace

AllowedKeys::AllowedKeys(const std::vector<Step>& steps)
{
    const auto is_known = [&](const Array& one) {
        return std::ranges::any_of(allowed_, [&](const Array& other) { return same_numbers(one, other); });
    };
    for (const Step& step : steps)
        if (step.value.type == ElementType::boolean && step.value.rank() > 1)
            given_.push_back({step.value.shape, step.value.values, ElementType::real});
    for (const Step& step : steps) {
        const auto scores = scores_of_softmax(step.formula);
        if (!scores || step.value.rank() < 2)
            continue;
        const Step* of = formula::resolve(step.path, *scores, [&](const std::string& path) -> const Step* {
            const auto found = std::ranges::find(steps, path, &Step::path);
            return found == steps.end() ? nullptr : &*found;
        });
        if (of == nullptr || of->value.rank() < 2)
            continue;
        Array allowed{of->value.shape, of->value.values, ElementType::real};
        for (double& value : allowed.values)
            value = std::isinf(value) && value < 0 ? 0 : 1;
        if (!is_known(allowed))
            allowed_.push_back(std::move(allowed));
    }
}

bool AllowedKeys::is_mask(const Array& array)
{
    const auto is_zero = [](double number) { return number == 0; };
    if (array.size() < 2 || std::ranges::none_of(array.values, is_zero))
        return false;
    const auto other = std::ranges::find_if_not(array.values, is_zero);
    return other != array.values.end() && (*other == 1 || is_large_negative(*other)) &&
           std::ranges::all_of(array.values, [&](double number) { return number == 0 || number == *other; });
}

namespace {

/// The first n rows and m columns of a mask for longer sequences; any other mask as it is.
Array cropped(const Array& mask, std::size_t n, std::size_t m)
{
    const std::size_t rank = mask.rank();
    if (rank < 2 || mask.shape[rank - 2] <= n || mask.shape.back() <= m)
        return mask;
    return range_of(range_of(mask, rank - 2, 0, n), rank - 1, 0, m);
}

/// True where a mask does what is demanded for one of the attentions that it fits; nothing where it fits none.
std::optional<bool> fulfils_any(Demand demand, const Array& whole, const std::vector<Array>& attentions)
{
    std::optional<bool> answer;
    for (const Array& allowed : attentions) {
        const std::size_t n = allowed.shape[allowed.rank() - 2], m = allowed.shape.back();
        const Array mask = cropped(whole, n, m);
        const std::size_t sequences = allowed.size() / (n * m);
        const Form form(mask.shape, n, m);
        if (form.count == 0 || (form.count > 1 && form.count % sequences != 0))
            continue;
        answer =
            answer.value_or(false) || fulfils(demand, mask, allowed, true) || fulfils(demand, mask, allowed, false);
    }
    return answer;
}

} // namespace

bool AllowedKeys::permit(const Array& mask) const { return fulfils_any(Demand::permit, mask, allowed_).value_or(true); }

bool AllowedKeys::say(const Array& mask) const { return fulfils_any(Demand::equal, mask, allowed_).value_or(true); }

bool AllowedKeys::has_step(const Array& mask) const { return fulfils_any(Demand::equal, mask, given_).value_or(false); }

} // namespace attn::diff
