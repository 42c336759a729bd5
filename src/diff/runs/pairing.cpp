// Which array of one run is which of the other.

#include "pairing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace attn::diff {
namespace {

// ------------------------------------------------------------------------------------------------ names

std::vector<std::string_view> words_of(std::string_view name)
{
    std::vector<std::string_view> words;
    while (true) {
        const std::size_t dot = name.find('.');
        words.push_back(name.substr(0, dot));
        if (dot == std::string_view::npos)
            return words;
        name.remove_prefix(dot + 1);
    }
}

bool is_number(std::string_view word)
{
    return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

/// "call2" of a module's second call, and "attention#2" of a function's.
bool is_call(std::string_view word) { return word.starts_with("call") && is_number(word.substr(4)); }

std::string_view without_count(std::string_view word)
{
    const std::size_t hash = word.find('#');
    return hash != std::string_view::npos && is_number(word.substr(hash + 1)) ? word.substr(0, hash) : word;
}

/// A name split into what it says of the place in the program and of the call: "call2.h.0.att" is "h.0.att" in "call2".
struct Name {
    explicit Name(const std::string& name)
    {
        const std::vector<std::string_view> words = words_of(name);
        for (std::size_t i = 0; i < words.size(); ++i) {
            const bool is_last = std::all_of(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end(),
                                             [](std::string_view word) { return is_call(word) || is_number(word); });
            if (is_call(words[i])) {
                call += std::string(words[i]) + ".";
                continue;
            }
            const std::string_view plain = is_last ? words[i] : without_count(words[i]);
            if (plain != words[i])
                call += std::string(words[i]) + ".";
            place += (place.empty() ? "" : ".") + std::string(plain);
            series += (series.empty() ? "" : ".") + std::string(without_count(plain));
            if (!is_number(plain))
                (unnumbered += unnumbered.empty() ? "" : ".") += std::string(without_count(plain));
            else
                numbers += std::string(plain) + ".";
            last = without_count(words[i]);
        }
    }

    std::string place, call;
    std::string series;              ///< its place without the number of the assignment
    std::string unnumbered, numbers; ///< that without the numbers of layers and loops, and those
    std::string last;                ///< its last word
};

/// How names are related, from the surest on.
enum class Related { name, series, place, loop, end, none };

std::string text_of(Related related)
{
    return related == Related::name   ? "by name"
           : related == Related::end  ? "by the end of its name"
           : related == Related::none ? "by its numbers"
                                      : "by its place";
}

/// True where the loops around one are the other's, or more: "0.3." of step 0, layer 3 has "3.".
bool is_in_loop_of(const Name& one, const Name& other)
{
    return one.numbers != other.numbers && one.unnumbered == other.unnumbered &&
           (one.numbers.ends_with(other.numbers) || other.numbers.ends_with(one.numbers));
}

Related relation(const std::string& a, const std::string& b, const Name& one, const Name& other)
{
    if (one.last != other.last)
        return Related::none;
    return a == b                                                 ? Related::name
           : one.call == other.call && one.series == other.series ? Related::series
           : one.call != other.call && one.place == other.place   ? Related::place
           : is_in_loop_of(one, other)                            ? Related::loop
                                                                  : Related::end;
}

// ------------------------------------------------------------------------------------------------ pairs

/// The numbers of a run's arrays in order, so that others are looked up.
class Sorted {
public:
    explicit Sorted(const Graph& graph) : graph_(graph), sorted_(graph.size()), distinct_(graph.size()) {}

    /// False where an array lacks numbers of what should be a part of it.
    bool has(std::size_t i, const Array& part, double most_off)
    {
        constexpr std::size_t probes = 16;
        const std::vector<double>& numbers = sorted(i);
        const std::size_t count = std::min(probes, part.size());
        const double slack =
            numbers.empty() ? 0 : 4 * most_off * std::max(std::abs(numbers.front()), std::abs(numbers.back()));
        for (std::size_t k = 0; k < count; ++k) {
            const double number = part.values[k * part.size() / count];
            const auto next = std::ranges::lower_bound(numbers, number - slack);
            if (std::isfinite(number) && (next == numbers.end() || *next > number + slack))
                return false;
        }
        return true;
    }

    /// How many different numbers there are, up to some: what is constant is everywhere, and so are 0 and 1.
    std::size_t distinct(std::size_t i)
    {
        sorted(i);
        return distinct_[i];
    }

private:
    const std::vector<double>& sorted(std::size_t i)
    {
        constexpr std::size_t enough = 64;
        std::vector<double>& numbers = sorted_[i];
        if (!numbers.empty())
            return numbers;
        std::ranges::copy_if(graph_.array(i).values, std::back_inserter(numbers),
                             [](double number) { return std::isfinite(number); });
        std::ranges::sort(numbers);
        for (std::size_t k = 0; k < numbers.size() && distinct_[i] < enough; ++k)
            distinct_[i] +=
                (k == 0 || numbers[k] != numbers[k - 1]) && numbers[k] != 0 && std::abs(numbers[k]) != 1 ? 1 : 0;
        return numbers;
    }

    const Graph& graph_;
    std::vector<std::vector<double>> sorted_;
    std::vector<std::size_t> distinct_;
};

class Pairer {
public:
    Pairer(const Graph& a, const Graph& b)
        : a_(a), b_(b), a_sorted_(a), b_sorted_(b), a_taken_(a.size()), b_taken_(b.size())
    {
        for (std::size_t i = 0; i < a.size(); ++i)
            a_names_.emplace_back(a.name(i));
        for (std::size_t j = 0; j < b.size(); ++j)
            b_names_.emplace_back(b.name(j));
        for (std::size_t i = 0; i < a.size(); ++i)
            for (std::size_t j = 0; j < b.size(); ++j) {
                const Related how = relation(a.name(i), b.name(j), a_names_[i], b_names_[j]);
                if (how == Related::name || how == Related::end)
                    learn(i, j);
                related_.push_back(how);
            }
    }

    Pairings pairs()
    {
        for (const Related how : {Related::name, Related::series, Related::place, Related::loop, Related::none})
            pair_near(how);
        for (const Related how : {Related::name, Related::series, Related::place, Related::loop, Related::end})
            pair_rest(how);
        pair_followers();
        pair_results();
        const auto is_paired = [](const auto& partners) { return !partners.empty(); };
        const bool is_b_longer =
            std::ranges::count_if(b_taken_, is_paired) > std::ranges::count_if(a_taken_, is_paired);
        std::ranges::sort(pairs_, {}, [&](const Pairing& one) {
            return is_b_longer ? std::pair(one.b, one.a) : std::pair(one.a, one.b);
        });
        return {std::move(pairs_), search_.is_cut()};
    }

private:
    struct Candidate {
        std::size_t a, b;
        Search::Found found;
    };
    struct Taken {
        std::size_t other, first; ///< the partner, and the first place that it takes
        double off;
    };

    /// Each pair of arrays that are related so, of one type.
    template <class Take>
    void each(Related how, const Take& take) const
    {
        for (std::size_t i = 0; i < a_.size(); ++i)
            for (std::size_t j = 0; j < b_.size(); ++j)
                if ((how == Related::none || related_[i * b_.size() + j] == how) &&
                    a_.array(i).type == b_.array(j).type)
                    take(i, j);
    }

    bool is_new(std::size_t a, std::size_t b) const { return a_taken_[a].empty() && b_taken_[b].empty(); }
    bool are_results(std::size_t a, std::size_t b) const { return a_.is_result(a) && b_.is_result(b); }
    bool is_left(std::size_t a, std::size_t b) const
    {
        return a_taken_[a].empty() || b_taken_[b].empty() ||
               (are_results(a, b) && std::ranges::find(a_taken_[a], b, &Taken::other) == a_taken_[a].end());
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
        Pairing& pairing = pairs_.emplace_back(Pairing{a, b, std::move(how), std::nullopt});
        if (found) {
            pairing.aligned = std::move(found->aligned);
            pairing.is_odd = found->is_odd;
        }
        const double off = found ? found->off : 0;
        a_taken_[a].push_back({b, pairing.aligned ? pairing.aligned->a.first() : 0, off});
        b_taken_[b].push_back({a, pairing.aligned ? pairing.aligned->b.first() : 0, off});
    }

    /// Numbers that are near, under names that are related so; under any, where there are too many of them for chance.
    void pair_near(Related how)
    {
        constexpr double of_one_name = 0.05, digits_wanted = 12; // that agree in all
        std::vector<Candidate> candidates;
        each(how, [&](std::size_t i, std::size_t j) {
            const Array &a = a_.array(i), &b = b_.array(j);
            const bool is_named = how == Related::name || (how == Related::series && a.shape == b.shape);
            const NumberType type = shorter(a_.types_so_far[i], b_.types_so_far[j]);
            const double most_off = is_named                      ? of_one_name
                                    : type == NumberType::float64 ? 1e-8
                                    : type == NumberType::float32 ? 1e-3
                                                                  : 0.05;
            const auto is_possible = [&] {
                return b.size() > a.size() ? b_sorted_.has(j, a, most_off) : a_sorted_.has(i, b, most_off);
            };
            const auto is_by_chance = [&] {
                const std::size_t distinct = std::min(a_sorted_.distinct(i), b_sorted_.distinct(j));
                return -std::log10(most_off) * static_cast<double>(distinct) < digits_wanted;
            };
            if (!is_left(i, j) || (how == Related::none && is_by_chance()) || (!is_named && !is_possible()))
                return;
            const auto cut = how == Related::name ? Search::Cut::either : Search::Cut::larger;
            if (auto found = search_.near(a, b, call_of(i, j), most_off, cut))
                candidates.push_back({i, j, std::move(*found)});
        });
        std::ranges::stable_sort(candidates, {}, [&](const Candidate& one) {
            return std::tuple(!are_results(one.a, one.b), a_.array(one.a).size() != b_.array(one.b).size(),
                              one.found.off);
        });
        for (Candidate& one : candidates) {
            // a place that has a much nearer partner is another array
            const auto is_free = [&](const std::vector<Taken>& taken, const View& view) {
                const double allowed = roundings_of(shorter(a_.types[one.a], b_.types[one.b]));
                return std::ranges::all_of(taken, [&](const Taken& other) {
                    return other.first != view.first() || one.found.off <= 4 * other.off + allowed;
                });
            };
            if (is_left(one.a, one.b) && is_free(a_taken_[one.a], one.found.aligned.a) &&
                is_free(b_taken_[one.b], one.found.aligned.b))
                pair(text_of(how), one.a, one.b, std::move(one.found));
        }
    }

    /// Related names alone: the same name, or the only one.
    void pair_rest(Related how)
    {
        std::map<std::size_t, std::size_t> of_a, of_b;
        std::vector<std::pair<std::size_t, std::size_t>> places;
        each(how, [&](std::size_t i, std::size_t j) {
            if (how == Related::end ? !is_new(i, j) : !is_left(i, j))
                return;
            places.emplace_back(i, j);
            ++of_a[i];
            ++of_b[j];
        });
        for (const auto& [i, j] : places) {
            const bool is_only = (a_taken_[i].empty() && of_a[i] == 1) || (b_taken_[j].empty() && of_b[j] == 1);
            const bool are_only = of_a[i] == 1 && of_b[j] == 1;
            const bool is_whole_taken = !is_new(i, j) && a_.array(i).size() == b_.array(j).size();
            if (!is_left(i, j) || is_whole_taken ||
                !(how == Related::name || (how == Related::end ? is_new(i, j) && are_only : is_only)))
                continue;
            auto found = search_.plain(a_.array(i), b_.array(j), call_of(i, j));
            if (found || (how == Related::name && is_new(i, j)))
                pair(text_of(how), i, j, std::move(found));
        }
    }

    /// Variables of one name that are computed from arrays that are pairs: what comes after the first wrong one.
    void pair_followers()
    {
        for (std::size_t j = 0; j < b_.size(); ++j) {
            std::map<std::size_t, std::size_t> votes;
            for (const std::size_t read : b_taken_[j].empty() ? b_.reads[j] : Indices{})
                for (const Taken& partner : b_taken_[read])
                    for (const std::size_t i : a_.readers[partner.other])
                        votes[i] += related_[i * b_.size() + j] != Related::none ? 1 : 0;
            const auto most = std::ranges::max_element(votes, {}, [](const auto& one) { return one.second; });
            if (most == votes.end() || most->second == 0)
                continue;
            const auto is_most = [&](const auto& one) { return one.second == most->second; };
            if (std::ranges::count_if(votes, is_most) > 1)
                continue;
            const std::size_t i = most->first;
            const bool is_whole_taken = !a_taken_[i].empty() && a_.array(i).size() == b_.array(j).size();
            if (a_.array(i).type == b_.array(j).type && !is_whole_taken)
                if (auto found = search_.plain(a_.array(i), b_.array(j), call_of(i, j)))
                    pair("by what it was computed from", i, j, std::move(found));
        }
    }

    /// The last result of each, where no result has a partner.
    void pair_results()
    {
        const bool is_one_paired =
            std::ranges::any_of(a_.results, [&](std::size_t i) { return !a_taken_[i].empty(); }) ||
            std::ranges::any_of(b_.results, [&](std::size_t j) { return !b_taken_[j].empty(); });
        if (is_one_paired || a_.results.empty() || b_.results.empty())
            return;
        const std::size_t i = a_.results.back(), j = b_.results.back();
        if (a_.array(i).size() == b_.array(j).size() && a_.array(i).type == b_.array(j).type)
            pair("as the result", i, j, search_.plain(a_.array(i), b_.array(j), call_of(i, j)));
    }

    const Graph &a_, &b_;
    std::vector<Name> a_names_, b_names_;
    std::vector<Related> related_; ///< of each array of A with each of B
    Sorted a_sorted_, b_sorted_;
    std::vector<std::vector<Taken>> a_taken_, b_taken_; ///< the partners of each
    std::vector<Pairing> pairs_;
    Search search_;
};

} // namespace

Pairings pair_arrays(const Graph& a, const Graph& b) { return Pairer(a, b).pairs(); }

} // namespace attn::diff
