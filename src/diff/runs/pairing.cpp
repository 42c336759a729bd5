// Which array of one run is which of the other.

#include "pairing.hpp"

#include "attn/mistakes/head_scope.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace attn::diff {

using mistakes::is_number;

namespace {

// ------------------------------------------------------------------------------------------------ names

/// A name split into what it says of the place in the program and of the call: "call2.h.0.att#3" is "h.0.att" of layer 0 in "call2".
struct Name {
    explicit Name(std::string_view rest)
    {
        bool is_first = false, is_last = true; // but for numbers and calls
        while (!is_first) {
            const std::size_t dot = rest.rfind('.');
            is_first = dot == std::string_view::npos;
            const std::string word(rest.substr(is_first ? 0 : dot + 1)), plain = word.substr(0, word.find('#'));
            rest = rest.substr(0, is_first ? 0 : dot);
            const bool is_call = word.starts_with("call") && is_number(word.substr(4)); // "attention#2" is one, too
            if (is_call || (plain != word && !is_last))
                call = word + '.' + call;
            if (is_call)
                continue;
            last = variable.empty() ? plain + '.' + last : last;
            place = (is_last ? word : plain) + '.' + place;
            std::string& words = is_number(plain) ? numbers : variable;
            words = plain + '.' + words;
            is_last = is_last && is_number(plain);
        }
    }

    std::string place, call;
    std::string variable, numbers; ///< its place without any numbers, and those of layers and loops
    std::string last;              ///< its last word that is no number, and the numbers after that
};

/// How names are related, from the surest on: the variable of one is the other's, in another assignment, call or round of a loop.
enum class Related { name, assignment, call, loop, end, none };

std::string text_of(Related related)
{
    return related == Related::name   ? "by name"
           : related == Related::end  ? "by the end of its name"
           : related == Related::none ? "by its numbers"
                                      : "by its place";
}

Related relation(const std::string& a, const std::string& b, const Name& one, const Name& other)
{
    const bool is_variable = one.variable == other.variable;
    return a == b                                                                  ? Related::name
           : one.last != other.last                                                ? Related::none
           : is_variable && one.numbers == other.numbers && one.call == other.call ? Related::assignment
           : one.place == other.place                                              ? Related::call
           : is_variable && one.numbers != other.numbers &&
                   (one.numbers.ends_with(other.numbers) || other.numbers.ends_with(one.numbers))
               ? Related::loop
               : Related::end;
}

// ------------------------------------------------------------------------------------------------ pairs

/// How many different numbers there are, up to some: what is constant is everywhere, and so are 0 and 1.
std::size_t distinct(const Array& array)
{
    constexpr std::size_t enough = 16;
    std::set<double> numbers;
    for (std::size_t i = 0; i < array.size() && numbers.size() < enough; ++i)
        if (const double number = array.values[i]; std::isfinite(number) && number != 0 && std::abs(number) != 1)
            numbers.insert(number);
    return numbers.size();
}

class Pairer {
public:
    Pairer(const Graph& a, const Graph& b) : a_(a), b_(b), of_a_(a.size()), of_b_(b.size())
    {
        for (std::size_t i = 0; i < a.size(); ++i)
            a_names_.emplace_back(a.name(i));
        for (std::size_t j = 0; j < b.size(); ++j)
            b_names_.emplace_back(b.name(j));
        for (std::size_t i = 0; i < a.size(); ++i)
            for (std::size_t j = 0; j < b.size(); ++j) {
                related_.push_back(relation(a.name(i), b.name(j), a_names_[i], b_names_[j]));
                if (related_.back() == Related::name || related_.back() == Related::end)
                    learn(i, j);
            }
    }

    Pairings pairs()
    {
        for (const Related how : {Related::name, Related::assignment, Related::call, Related::loop, Related::none})
            pair_near(how);
        for (const Related how : {Related::name, Related::assignment, Related::call, Related::loop, Related::end})
            pair_rest(how);
        pair_followers();
        pair_results();
        const auto is_paired = [](const Indices& pairs) { return !pairs.empty(); };
        const bool is_b_longer = std::ranges::count_if(of_b_, is_paired) > std::ranges::count_if(of_a_, is_paired);
        std::ranges::sort(pairs_, {}, [&](const Pairing& one) {
            return is_b_longer ? std::pair(one.b, one.a) : std::pair(one.a, one.b);
        });
        return {std::move(pairs_), search_.is_cut()};
    }

private:
    /// Each pair of arrays that are related so, of one type, of which one is left.
    template <class Take>
    void each_left(Related how, const Take& take) const
    {
        for (std::size_t i = 0; i < a_.size(); ++i)
            for (std::size_t j = 0; j < b_.size(); ++j)
                if ((how == Related::none || related(i, j) == how) && a_.array(i).type == b_.array(j).type &&
                    is_left(i, j))
                    take(i, j);
    }

    Related related(std::size_t a, std::size_t b) const { return related_[a * b_.size() + b]; }
    bool is_new(std::size_t a, std::size_t b) const { return of_a_[a].empty() && of_b_[b].empty(); }
    bool are_results(std::size_t a, std::size_t b) const { return a_.is_result(a) && b_.is_result(b); }
    bool is_left(std::size_t a, std::size_t b) const
    {
        const auto is_with_b = [&](std::size_t pair) { return pairs_[pair].b == b; };
        return of_a_[a].empty() || of_b_[b].empty() || (are_results(a, b) && std::ranges::none_of(of_a_[a], is_with_b));
    }
    /// What has a partner can have another for a part of it only.
    bool can_be(std::size_t a, std::size_t b) const { return is_new(a, b) || a_.array(a).size() != b_.array(b).size(); }

    std::optional<Search::Found> find(std::size_t a, std::size_t b, double most_off, Search::Effort effort)
    {
        return search_.find(a_.array(a), b_.array(b), call_of(a, b), most_off, effort);
    }
    auto plain(std::size_t a, std::size_t b)
    {
        return find(a, b, std::numeric_limits<double>::infinity(), Search::Effort::known);
    }

    /// The call of both: a part of one call is not the part of another.
    std::string call_of(std::size_t a, std::size_t b) const { return a_names_[a].call + " " + b_names_[b].call; }

    void learn(std::size_t a, std::size_t b)
    {
        const Array &left = a_.array(a), &right = b_.array(b);
        const bool are_given = (a_.is_input(a) && b_.is_input(b)) || left.type == ElementType::integer;
        if (are_given && !a_.is_result(a) && !b_.is_result(b) && left.type == right.type)
            search_.learn_rows(left, right, call_of(a, b));
    }

    void pair(std::string how, std::size_t a, std::size_t b, std::optional<Search::Found> found)
    {
        of_a_[a].push_back(pairs_.size());
        of_b_[b].push_back(pairs_.size());
        pairs_.push_back({a, b, std::move(how), std::move(found)});
    }

    /// False where the places have a much nearer partner.
    bool is_free(const Pairing& one) const
    {
        const double allowed = roundings_of(shorter(a_.types[one.a], b_.types[one.b]));
        const auto is_nearer = [&](std::size_t (Aligned::*at)(std::size_t) const) {
            return [&, at](std::size_t pair) {
                const auto& other = pairs_[pair].found;
                return other && (other->aligned.*at)(0) == (one.found->aligned.*at)(0) &&
                       one.found->off > 4 * other->off + allowed;
            };
        };
        return std::ranges::none_of(of_a_[one.a], is_nearer(&Aligned::a_at)) &&
               std::ranges::none_of(of_b_[one.b], is_nearer(&Aligned::b_at));
    }

    /// Numbers that are near, under names that are related so; under any, where there are too many of them for chance.
    void pair_near(Related how)
    {
        constexpr double of_one_name = 0.05, digits_wanted = 12; // that agree in all
        std::vector<Pairing> candidates;
        each_left(how, [&](std::size_t i, std::size_t j) {
            const Array &a = a_.array(i), &b = b_.array(j);
            const bool is_named = how == Related::name || (how == Related::assignment && a.shape == b.shape);
            const NumberType type = shorter(a_.types_so_far[i], b_.types_so_far[j]);
            const double most_off = is_named                      ? of_one_name
                                    : type == NumberType::float64 ? 1e-8
                                    : type == NumberType::float32 ? 1e-3
                                                                  : 0.05;
            const double wanted = how == Related::none ? digits_wanted / -std::log10(most_off) : 0;
            if (static_cast<double>(distinct(a.size() < b.size() ? a : b)) < wanted)
                return;
            const auto effort = how == Related::name ? Search::Effort::either : Search::Effort::larger;
            if (auto found = find(i, j, most_off, effort))
                candidates.push_back({i, j, text_of(how), std::move(found)});
        });
        std::ranges::stable_sort(candidates, {}, [&](const Pairing& one) {
            // of equally near ones first those of one variable, and of one number of axes
            const Array &a = a_.array(one.a), &b = b_.array(one.b);
            const double roundings = roundings_of(shorter(a_.types[one.a], b_.types[one.b]));
            return std::tuple(!are_results(one.a, one.b), a.size() != b.size(), std::max(one.found->off, roundings),
                              related(one.a, one.b), a.rank() != b.rank(), one.found->off);
        });
        for (Pairing& one : candidates)
            if (is_left(one.a, one.b) && is_free(one))
                pair(one.how, one.a, one.b, std::move(one.found));
    }

    /// Related names alone: the same name, or the only one.
    void pair_rest(Related how)
    {
        Indices of_a(a_.size(), 0), of_b(b_.size(), 0);
        std::vector<std::pair<std::size_t, std::size_t>> places;
        each_left(how, [&](std::size_t i, std::size_t j) {
            if (how != Related::end || is_new(i, j)) {
                places.emplace_back(i, j);
                ++of_a[i];
                ++of_b[j];
            }
        });
        for (const auto& [i, j] : places) {
            const bool is_only =
                how == Related::name || (of_a[i] == 1 && of_b[j] == 1) ||
                (how != Related::end && ((of_a_[i].empty() && of_a[i] == 1) || (of_b_[j].empty() && of_b[j] == 1)));
            if (!is_only || !is_left(i, j) || !can_be(i, j) || (how == Related::end && !is_new(i, j)))
                continue;
            auto found = plain(i, j);
            if (found || (how == Related::name && is_new(i, j)))
                pair(text_of(how), i, j, std::move(found));
        }
    }

    /// Variables of one name that are computed from arrays that are pairs: what comes after the first wrong one.
    void pair_followers()
    {
        for (std::size_t j = 0; j < b_.size(); ++j) {
            Indices votes(a_.size(), 0);
            for (const std::size_t read : of_b_[j].empty() ? b_.reads[j] : Indices{})
                for (const std::size_t pair : of_b_[read])
                    for (const std::size_t i : a_.readers[pairs_[pair].a])
                        votes[i] += related(i, j) != Related::none ? 1 : 0;
            const auto most = std::ranges::max_element(votes);
            if (most == votes.end() || *most == 0 || std::ranges::count(votes, *most) > 1)
                continue;
            const auto i = static_cast<std::size_t>(most - votes.begin());
            if (a_.array(i).type == b_.array(j).type && can_be(i, j))
                if (auto found = plain(i, j))
                    pair("by what it was computed from", i, j, std::move(found));
        }
    }

    /// The last result of each, where no result has a partner.
    void pair_results()
    {
        if (a_.results.empty() || b_.results.empty() ||
            std::ranges::any_of(a_.results, [&](std::size_t i) { return !of_a_[i].empty(); }) ||
            std::ranges::any_of(b_.results, [&](std::size_t j) { return !of_b_[j].empty(); }))
            return;
        const std::size_t i = a_.results.back(), j = b_.results.back();
        if (a_.array(i).size() == b_.array(j).size() && a_.array(i).type == b_.array(j).type)
            pair("as the result", i, j, plain(i, j));
    }

    const Graph &a_, &b_;
    std::vector<Name> a_names_, b_names_;
    std::vector<Related> related_;     ///< of each array of A with each of B
    std::vector<Indices> of_a_, of_b_; ///< the pairs that each is in
    std::vector<Pairing> pairs_;
    Search search_;
};

} // namespace

Pairings pair_arrays(const Graph& a, const Graph& b) { return Pairer(a, b).pairs(); }

} // namespace attn::diff
