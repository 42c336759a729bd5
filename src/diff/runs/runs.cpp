// Whether what two runs computed is the same up to roundings, and where it begins to differ.

#include "attn/diff/runs.hpp"

#include "attn/mistakes/head_scope.hpp"

#include "pairing.hpp"
#include "../read.hpp"
#include "../type_evidence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <array>
#include <set>
#include <string_view>
#include <utility>

namespace attn::diff {
namespace {

/// The shortest type that holds all numbers, where they tell of it: whole numbers and few digits are of any type.
std::optional<NumberType> type_of(const Array& array)
{
    bool can_be_short = false;
    constexpr std::size_t enough = 4; // different numbers; a mask of -10000 is of any type
    for (const NumberType type : {NumberType::bfloat16, NumberType::float16, NumberType::float32}) {
        std::set<double> telling;
        for (const double number : array.values)
            if (telling.size() < enough && needs_digits(type, number))
                telling.insert(std::abs(number));
        if (array.type != ElementType::real ||
            !std::ranges::all_of(array.values, [type](double number) { return is_exactly(type, number); }))
            continue;
        if (!telling.empty() && telling.size() >= std::min(enough, array.size()))
            return type;
        can_be_short = true;
    }
    return can_be_short ? std::nullopt : std::optional(NumberType::float64);
}

/// How far off what was computed so far is.
struct Off {
    double rms = 0, largest = 0;
    bool is_different = false, is_unclear = false;

    void take(const Off& other)
    {
        rms = std::max(rms, other.rms);
        largest = std::max(largest, other.largest);
        is_different = is_different || other.is_different;
        is_unclear = is_unclear || other.is_unclear;
    }
};

// ------------------------------------------------------------------------------------------------ what is off

/// A run, and what was found of each of its arrays.
struct Side : Graph {
    Side(const RecordedRun& recorded, char name) : Graph(recorded), letter(name), pairs(size()), off(size()) {}

    /// What lies between an array and those before it that have a partner; and the last of these.
    struct Before {
        std::set<std::size_t> unpaired;
        std::optional<std::size_t> last;
    };
    Before before(std::size_t node) const
    {
        Before found;
        Indices open{node};
        while (!open.empty()) {
            const std::size_t at = open.back();
            open.pop_back();
            for (const std::size_t read : knows_reads || at == 0 ? reads[at] : Indices{at - 1})
                if (!pairs[read].empty())
                    found.last = std::max(found.last.value_or(0), read);
                else if (found.unpaired.insert(read).second)
                    open.push_back(read);
        }
        return found;
    }

    char letter;
    std::vector<Indices> pairs; ///< that each array is in
    std::vector<std::optional<Off>> off;
    std::vector<bool> is_ok = {}; ///< the same as in the other run, or all that was computed from it is
};

class Judge {
public:
    Judge(const RecordedRun& a, const RecordedRun& b) : a_(a, 'A'), b_(b, 'B')
    {
        Pairings found = pair_arrays(a_, b_);
        pairings_ = std::move(found.pairs);
        result_.is_search_cut = found.is_search_cut;
        for (std::size_t k = 0; k < pairings_.size(); ++k) {
            a_.pairs[pairings_[k].a].push_back(k);
            b_.pairs[pairings_[k].b].push_back(k);
        }
    }

    RunsDiff judged()
    {
        for (const Pairing& pairing : pairings_)
            judge(pairing);
        find_effects();
        find_undecided();
        find_unknown_effects();
        for (Side* side : {&a_, &b_})
            judge_results(*side);
        if (pairings_.empty())
            result_.why_undecided = {
                "nothing in common: no array of one has a name or the numbers of one of the other"};
        for (const auto& [side, only] : {std::pair(&a_, &result_.only_a), std::pair(&b_, &result_.only_b)})
            for (std::size_t i = 0; i < side->size(); ++i)
                if (side->pairs[i].empty())
                    only->push_back(side->name(i));
        find_between();
        return std::move(result_);
    }

private:
    bool knows_reads() const { return a_.knows_reads && b_.knows_reads; }

    void judge(const Pairing& pairing)
    {
        RunPair& pair = result_.pairs.emplace_back();
        pair.a = a_.name(pairing.a);
        pair.b = b_.name(pairing.b);
        pair.how = pairing.how;
        pair.a_origin = a_.origin(pairing.a);
        pair.b_origin = b_.origin(pairing.b);
        pair.is_shape_wrong = !pairing.found;
        Off before = all_before_;
        if (knows_reads()) {
            before = operands(a_, pairing.a);
            before.take(operands(b_, pairing.b));
        }
        Off now = pairing.found ? judge_numbers(pair, pairing, before) : Off{.is_different = true};
        if (now.is_different) { // which may be of no account: what follows is off by no less than its operands
            pair.likeness = Likeness::different;
            now.rms = before.rms;
            now.largest = before.largest;
        }
        pair.follows = now.is_different && before.is_different;
        for (auto* off : {&a_.off[pairing.a], &b_.off[pairing.b]}) {
            *off = off->value_or(Off{});
            (*off)->take(now);
        }
        all_before_.take(now);
    }

    Off judge_numbers(RunPair& pair, const Pairing& pairing, const Off& before)
    {
        constexpr double growth = 8; // of what the operands are off by, in one step
        constexpr double peak = 8;   // the largest of many roundings over their root mean square
        constexpr double steps = 16; // more of them than one, where what lies between was not compared
        const Aligned& both = pairing.found->aligned;
        const Apart apart = measure(both);
        const std::string a_part = part_text(*both.a, both.a_places, "A"),
                          b_part = part_text(*both.b, both.b_places, "B");
        pair.part = a_part + (a_part.empty() || b_part.empty() ? "" : ", ") + b_part;
        if (apart.count == 0)
            return {};
        pair.off = apart.off();
        pair.largest = apart.largest;
        pair.a_worst = index_at(both.a_at(apart.worst), both.a->shape);
        pair.b_worst = index_at(both.b_at(apart.worst), both.b->shape);
        pair.a_value = both.a->values[both.a_at(apart.worst)];
        pair.b_value = both.b->values[both.b_at(apart.worst)];
        if (apart.differing == 0)
            return {.is_unclear = before.is_unclear};
        bool is_unseen = false;
        double operand_size = 0;
        type_ = shorter(type_, shorter(a_.types[pairing.a], b_.types[pairing.b]));
        for (const auto& [side, node] : {std::pair(&a_, pairing.a), std::pair(&b_, pairing.b)}) {
            for (const std::size_t one : side->before(node).unpaired) {
                is_unseen = is_unseen || side->array(one).type == ElementType::real;
                type_ = shorter(type_, side->types[one]);
            }
            for (const std::size_t read : side->reads[node])
                operand_size = std::max(operand_size, size_of(side->array(read).values));
        }
        result_.type = type_;
        const double roundings = roundings_of(type_);
        const bool is_counted = both.a->type != ElementType::real;
        const bool is_nothing_else = apart.is_finite && apart.rms > 0 && apart.rms <= roundings * operand_size;
        pair.allowed = is_counted ? 0 : is_nothing_else ? 2 : roundings + growth * before.rms;
        const double largest = peak * roundings + peak * growth * before.largest;
        const bool is_alone = a_.is_input(pairing.a) || b_.is_input(pairing.b);
        const double far = is_alone    ? std::max(steps, roundings_of(NumberType::bfloat16) / pair.allowed)
                           : is_unseen ? steps
                                       : 1;
        const auto is_within = [&](double times) {
            return is_nothing_else || (apart.off() <= times * pair.allowed && apart.largest <= times * largest);
        };
        if (is_counted || !apart.is_finite || !is_within(far))
            return {.is_different = true};
        pair.likeness = is_within(1) && !before.is_unclear ? Likeness::rounding : Likeness::undecided;
        if (is_nothing_else) // which is small beside what it was computed from, and so beside what follows
            return {.rms = roundings, .largest = roundings, .is_unclear = before.is_unclear};
        return {.rms = apart.off(), .largest = apart.largest, .is_unclear = pair.likeness == Likeness::undecided};
    }

    /// What an array's operands are off by; where one has no partner, what its own are.
    static Off operands(Side& side, std::size_t node)
    {
        Off off;
        for (const std::size_t read : side.reads[node]) {
            if (!side.off[read])
                side.off[read] = operands(side, read);
            off.take(*side.off[read]);
        }
        return off;
    }

    bool is_same(std::size_t pair) const { return result_.pairs[pair].likeness <= Likeness::rounding; }

    // -------------------------------------------------------------------------------------- what matters

    /// A difference is of no account where all that was computed from it is the same, in both runs.
    void find_effects()
    {
        const auto all_readers_ok = [](const Side& side, std::size_t node) {
            return side.knows_reads && !side.is_result(node) &&
                   std::ranges::all_of(side.readers[node],
                                       [&](std::size_t reader) { return bool(side.is_ok[reader]); });
        };
        for (Side* side : {&a_, &b_}) {
            side->is_ok.assign(side->size(), false);
            for (std::size_t i = side->size(); i-- > 0;)
                side->is_ok[i] = all_readers_ok(*side, i) ||
                                 (!side->pairs[i].empty() &&
                                  std::ranges::all_of(side->pairs[i], [&](std::size_t pair) { return is_same(pair); }));
        }
        for (std::size_t k = 0; k < pairings_.size(); ++k)
            if (!is_same(k) && all_readers_ok(a_, pairings_[k].a) && all_readers_ok(b_, pairings_[k].b))
                result_.pairs[k].likeness = Likeness::without_effect;
    }

    void judge_results(Side& side)
    {
        const char other = side.letter == 'A' ? 'B' : 'A';
        for (const std::size_t node : side.results) {
            const Indices& pairs = side.pairs[node];
            if (pairs.empty() && is_by_product(side, node))
                continue;
            result_.results.push_back({side.letter, side.name(node), !pairs.empty()});
            const std::string what = fmt::format("{} of {}", side.name(node), side.letter);
            if (pairs.empty())
                why(fmt::format("{} is a result that has no partner in {}: give it the name that it has there, record "
                                "what ended early to its end, or leave it out of the run",
                                what, other));
            if (std::ranges::count_if(pairs, [&](std::size_t k) { return is_odd_result(k); }) > 0)
                why(fmt::format("{} has the numbers of {} in another order or at another place, and no input shows "
                                "which is right: record the inputs",
                                what, other));
            if (ends_early(side, node))
                why(fmt::format("{} ends later than what {} has of it, {}: record both to the end, or give both the "
                                "same tokens",
                                what, other, result_.pairs[pairs.back()].part));
        }
    }

    /// True for a result whose numbers are those of the other run, but not where they should be.
    bool is_odd_result(std::size_t k)
    {
        const Pairing& pairing = pairings_[k];
        Likeness& likeness = result_.pairs[k].likeness;
        const bool is_reordered =
            likeness == Likeness::different && pairing.found &&
            Search().is_reordered(a_.array(pairing.a), b_.array(pairing.b), 8 * roundings_of(type_));
        likeness = is_reordered ? Likeness::undecided : likeness;
        return is_reordered || (pairing.found && pairing.found->is_odd && is_same(k));
    }

    /// One of several arrays that a call returned, where the run went on with another.
    static bool is_by_product(const Side& side, std::size_t node)
    {
        const std::optional<Origin> own = side.origin(node);
        for (std::size_t i = 0; i < side.size() && own && !side.reads[node].empty(); ++i) {
            const std::optional<Origin> other = side.origin(i);
            if (i != node && other && other->line == own->line && other->file == own->file &&
                other->function == own->function && side.reads[i] == side.reads[node] && !side.is_result(i) &&
                side.is_ok[i])
                return true;
        }
        return false;
    }

    /// What was compared of an array in some pairs.
    std::vector<Stretch> compared(const Side& side, std::size_t node, const Indices& pairs) const
    {
        Indices places;
        for (const std::size_t k : pairs)
            for (std::size_t i = 0; pairings_[k].found && i < pairings_[k].found->aligned.count(); ++i)
                places.push_back(side.letter == 'A' ? pairings_[k].found->aligned.a_at(i)
                                                    : pairings_[k].found->aligned.b_at(i));
        return stretches_of(side.array(node).shape, places);
    }

    /// True where the end of a result was not compared, and no input shows that this run was given so much more than the other.
    bool ends_early(const Side& side, std::size_t node) const
    {
        const auto is_ended = [&](const Stretch& part) {
            const auto has_part = [&](std::size_t i, const Indices& pairs) {
                return std::ranges::count(compared(side, i, pairs), part) > 0;
            };
            bool is_given = part.end == part.size || part.end == 0;
            for (std::size_t i = 0; i < side.size() && !is_given; ++i)
                is_given = (side.is_input(i) || side.array(i).type == ElementType::integer) && !side.is_result(i) &&
                           has_part(i, side.pairs[i]) &&
                           std::ranges::any_of(side.pairs[i], [&](std::size_t k) { return has_part(i, {k}); });
            return !is_given;
        };
        return std::ranges::any_of(compared(side, node, side.pairs[node]), is_ended);
    }

    void why(std::string text) { result_.why_undecided.push_back(std::move(text)); }

    void find_undecided()
    {
        for (const RunPair& pair : result_.pairs)
            if (pair.likeness == Likeness::undecided)
                why(fmt::format("{} is off by {:.3g} of its size, and what lies before it was not compared: roundings "
                                "can do {:.2g} in one step; record what lies between",
                                pair.a, pair.off, pair.allowed));
        std::vector<std::string> only_a, only_b;
        for (const auto& [side, only] : {std::pair(&a_, &only_a), std::pair(&b_, &only_b)})
            for (std::size_t i = 0; i < side->size(); ++i)
                if (side->pairs[i].empty() && side->array(i).type == ElementType::real)
                    only->push_back(side->name(i));
        if (!knows_reads() && !only_a.empty() && !only_b.empty())
            why(fmt::format(
                "{} of A and {} of B have no partner, and which of them are results is not known: give both "
                "the same name, or leave them out",
                fmt::join(only_a, ", "), fmt::join(only_b, ", ")));
        for (const Side* side : {&a_, &b_})
            if (!side->run.incomplete.empty())
                why(fmt::format("{} is incomplete: {}", side->letter, side->run.incomplete));
    }

    /// Where it is not known what was computed from an array, one that is different can be of no account if the results are the same.
    void find_unknown_effects()
    {
        const auto are_results_same = [&](const Side& side) {
            return std::ranges::all_of(side.results, [&](std::size_t node) {
                return !side.pairs[node].empty() &&
                       std::ranges::all_of(side.pairs[node], [&](std::size_t pair) { return is_same(pair); });
            });
        };
        if (knows_reads() || !are_results_same(a_) || !are_results_same(b_))
            return;
        std::vector<std::string> names;
        for (RunPair& pair : result_.pairs)
            if (pair.likeness == Likeness::different) {
                pair.likeness = Likeness::undecided;
                names.push_back(pair.a);
            }
        if (!names.empty())
            why(fmt::format(
                "the last arrays are the same, and whether anything was computed from {}, or it is a result "
                "itself, is not known: record both runs",
                fmt::join(names, ", ")));
    }

    void find_between()
    {
        const RunPair* first = result_.first_different();
        if (first == nullptr)
            return;
        const auto k = static_cast<std::size_t>(first - result_.pairs.data());
        RunPair& pair = result_.pairs[k];
        Parting between{"", pair.b_origin ? pair.b : pair.a, std::nullopt,
                        pair.b_origin.value_or(pair.a_origin.value_or(Origin{}))};
        for (const auto& [side, node] : {std::pair(&a_, pairings_[k].a), std::pair(&b_, pairings_[k].b)}) {
            const Side::Before before = side->before(node);
            for (const std::size_t one : before.unpaired)
                pair.unshared.push_back({side->letter, side->name(one), side->origin(one)});
            if (auto origin = before.last ? side->origin(*before.last) : std::nullopt) {
                between.last_name = side->name(*before.last);
                between.last_same = std::move(origin);
            }
        }
        if (!pair.unshared.empty() && (pair.b_origin || pair.a_origin))
            result_.between = std::move(between);
    }

    Side a_, b_;
    std::vector<Pairing> pairings_;
    RunsDiff result_;
    NumberType type_ = NumberType::float64; ///< the shortest so far
    Off all_before_;
};

// ------------------------------------------------------------------------------------------------ layers

/// A name up to its first number: the layer that it is of; empty where it has none.
std::string layer_of(const std::string& name)
{
    for (std::size_t begin = 0; begin < name.size();) {
        const std::size_t end = std::min(name.find('.', begin), name.size());
        const std::string_view word = std::string_view(name).substr(begin, end - begin);
        if (mistakes::is_number(word))
            return name.substr(0, end);
        begin = end + 1;
    }
    return "";
}

/// The layers of the prefix that has most of them, and most arrays in them.
/// @param name  of the run whose names tell of layers
std::vector<LayerGrowth> growth_of(const std::vector<RunPair>& pairs, std::string RunPair::*name)
{
    std::map<std::string, std::vector<LayerGrowth>> by_prefix;
    std::map<std::string, std::size_t> arrays;
    for (const RunPair& pair : pairs) {
        const std::string layer = layer_of(pair.*name);
        if (layer.empty() || pair.is_shape_wrong)
            continue;
        const std::string prefix = layer.substr(0, layer.rfind('.') + 1);
        std::vector<LayerGrowth>& layers = by_prefix[prefix];
        ++arrays[prefix];
        const auto known = std::ranges::find(layers, layer, &LayerGrowth::layer);
        LayerGrowth& growth =
            known == layers.end() ? layers.emplace_back(LayerGrowth{.layer = layer, .last = {}}) : *known;
        growth.last = pair.*name;
        growth.off = pair.off;
        growth.worst = std::max(growth.worst, pair.off);
    }
    const auto most = std::ranges::max_element(
        by_prefix, {}, [&](const auto& one) { return std::pair(one.second.size(), arrays[one.first]); });
    return most == by_prefix.end() || most->second.size() < 2 ? std::vector<LayerGrowth>{} : most->second;
}

} // namespace

Graph::Graph(const RecordedRun& recorded) : run(recorded), reads(size()), readers(size())
{
    std::map<std::string_view, std::size_t> places;
    bool all_known = size() > 0;
    for (std::size_t i = 0; i < size(); ++i) {
        const Origin from = origin(i).value_or(Origin{});
        all_known = all_known && from.knows_reads;
        for (const std::string& read : from.reads)
            if (const auto found = places.find(read); found != places.end())
                reads[i].push_back(found->second);
        places.emplace(name(i), i);
        types.push_back(type_of(array(i)).value_or(i == 0 ? NumberType::float64 : types_so_far[i - 1]));
        types_so_far.push_back(i == 0 ? types[0] : shorter(types[i], types_so_far[i - 1]));
    }
    knows_reads = all_known && std::ranges::any_of(reads, [](const auto& one) { return !one.empty(); });
    for (std::size_t i = 0; i < size(); ++i)
        for (const std::size_t read : reads[i])
            readers[read].push_back(i);
    for (const std::string& result : run.results)
        if (const auto found = places.find(result); found != places.end())
            results.push_back(found->second);
    if (!results.empty() || size() == 0)
        return;
    for (std::size_t i = 0; i + 1 < size(); ++i)
        if (knows_reads && readers[i].empty() && array(i).type == ElementType::real)
            results.push_back(i);
    results.push_back(size() - 1);
}

std::optional<Origin> Graph::origin(std::size_t i) const
{
    const auto found = run.origins.find(name(i));
    return found == run.origins.end() ? std::nullopt : std::optional(found->second);
}

bool Graph::is_result(std::size_t i) const { return std::ranges::find(results, i) != results.end(); }

double roundings_of(NumberType type)
{
    constexpr double of_the_number = 4, of_the_sum = 64;
    const NumberType summed = type == NumberType::float64 ? type : NumberType::float32; // as kernels of 16 bits do
    return of_the_number * roundoff_of(type) + of_the_sum * roundoff_of(summed);
}

NumberType shorter(NumberType left, NumberType right) { return roundoff_of(left) > roundoff_of(right) ? left : right; }

std::string_view name_of(Likeness likeness)
{
    constexpr std::array<std::string_view, 5> names{"bits equal", "rounding", "without effect", "undecided",
                                                    "different"};
    return names.at(static_cast<std::size_t>(likeness));
}

RecordedRun read_run(const std::filesystem::path& path)
{
    RecordedRun run;
    read_each_array(path,
                    [&](const std::string& name, Array array) { run.arrays.emplace_back(name, std::move(array)); });
    Listing listing = read_listing(path);
    run.origins = std::move(listing.origins);
    run.results = std::move(listing.results);
    run.incomplete = std::move(listing.incomplete);
    return run;
}

const RunPair* RunsDiff::first_different() const
{
    for (const Likeness likeness : {Likeness::different, Likeness::undecided})
        for (const bool follows : {false, true})
            for (const RunPair& pair : pairs)
                if (pair.likeness == likeness && pair.follows == follows)
                    return &pair;
    return nullptr;
}

std::size_t RunsDiff::count(Likeness likeness) const
{
    return static_cast<std::size_t>(std::ranges::count(pairs, likeness, &RunPair::likeness));
}

Likeness RunsDiff::verdict() const
{
    return count(Likeness::different) > 0           ? Likeness::different
           : !why_undecided.empty()                 ? Likeness::undecided
           : count(Likeness::equal) == pairs.size() ? Likeness::equal
                                                    : Likeness::rounding;
}

bool RunsDiff::passed() const { return verdict() <= Likeness::rounding; }

RunsDiff compare_runs(const RecordedRun& a, const RecordedRun& b)
{
    RunsDiff result = Judge(a, b).judged();
    // the shorter run has no names of calls and steps
    result.layers = growth_of(result.pairs, a.arrays.size() <= b.arrays.size() ? &RunPair::a : &RunPair::b);
    return result;
}

} // namespace attn::diff
