// Whether what two runs computed is the same up to roundings, and where it begins to differ.

#include "attn/diff/runs.hpp"

#include "pairing.hpp"
#include "../read.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <optional>
#include <utility>

namespace attn::diff {
namespace {

/// The shortest type that holds all numbers, where they tell of it: whole numbers and few digits are of any type.
NumberType type_of(const Array& array)
{
    const auto needs_digits = [](NumberType type, double number) {
        int exponent = 0;
        const double digits = std::ldexp(std::frexp(number, &exponent), digits_of(type) / 2);
        return std::isfinite(number) && digits != std::trunc(digits);
    };
    for (const NumberType type : {NumberType::bfloat16, NumberType::float16, NumberType::float32})
        if (std::ranges::all_of(array.values, [type](double number) { return is_exactly(type, number); }))
            return std::ranges::any_of(array.values, [&](double number) { return needs_digits(type, number); })
                       ? type
                       : NumberType::float64;
    return NumberType::float64;
}

NumberType shorter(NumberType left, NumberType right) { return roundoff_of(left) > roundoff_of(right) ? left : right; }

/// What roundings alone can do to an array, over its root mean square: to its numbers, and to the sums that they are.
double roundings_of(NumberType type)
{
    constexpr double of_the_number = 4, of_the_sum = 64;
    const NumberType summed = type == NumberType::float64 ? type : NumberType::float32; // as kernels of 16 bits do
    return of_the_number * roundoff_of(type) + of_the_sum * roundoff_of(summed);
}

std::string part_text(const View& view, const Shape& shape, const char* run)
{
    if (view.axes.empty())
        return "";
    std::vector<std::string> slices(view.array->rank(), ":");
    bool is_part = false;
    for (std::size_t i = 0; i < view.shape.size(); ++i) {
        const std::size_t axis = view.axes[i];
        if (axis >= slices.size() || shape[axis] == view.shape[i])
            continue;
        is_part = true;
        const std::size_t begin = view.offsets[i], end = begin + view.shape[i];
        slices[axis] = fmt::format("{}:{}", begin, end);
    }
    return is_part ? fmt::format("[{}] of {}", fmt::join(slices, ", "), run) : "";
}

std::string part_text(const Aligned& both)
{
    const std::string a = part_text(both.a, both.a.array->shape, "A"), b = part_text(both.b, both.b.array->shape, "B");
    return a.empty() || b.empty() ? a + b : a + ", " + b;
}

/// How far off what was computed so far is.
struct Off {
    double rms = 0, largest = 0;
    bool is_different = false;

    void take(const Off& other)
    {
        rms = std::max(rms, other.rms);
        largest = std::max(largest, other.largest);
        is_different = is_different || other.is_different;
    }
};

class Judge {
public:
    Judge(const RecordedRun& a, const RecordedRun& b, RunsDiff& result) : a_(a), b_(b), result_(result)
    {
        knows_reads_ = std::ranges::any_of(b.origins, [](const auto& one) { return one.second.knows_reads; }) &&
                       std::ranges::any_of(a.origins, [](const auto& one) { return one.second.knows_reads; });
    }

    void judge(const Pairing& pairing)
    {
        RunPair& pair = result_.pairs.emplace_back();
        pair.a = a_.arrays[pairing.a].first;
        pair.b = b_.arrays[pairing.b].first;
        pair.how = pairing.how;
        pair.a_origin = origin_of(a_, pair.a);
        pair.b_origin = origin_of(b_, pair.b);
        const Off before = knows_reads_ ? off_of_operands(pair) : all_before_;
        Off now;
        if (pairing.aligned)
            now = judge_numbers(pair, *pairing.aligned, before);
        else {
            pair.is_shape_wrong = true;
            pair.likeness = Likeness::different;
            now.is_different = true;
        }
        pair.follows = pair.likeness == Likeness::different && before.is_different;
        off_by_a_[pair.a].take(now);
        off_by_b_[pair.b].take(now);
        all_before_.take(now);
    }

    /// What the first ones that differ were computed from that the other run doesn't have: the difference can be there.
    void find_unshared()
    {
        for (RunPair& pair : result_.pairs)
            if (pair.likeness == Likeness::different && !pair.follows) {
                add_unshared('A', a_, pair.a, &RunPair::a, pair.unshared);
                add_unshared('B', b_, pair.b, &RunPair::b, pair.unshared);
            }
    }

    /// A difference that nothing follows from: minus infinity, and a number that is large enough.
    void find_effects()
    {
        if (!knows_reads_)
            return;
        for (RunPair& pair : result_.pairs) {
            if (pair.likeness != Likeness::different || pair.is_shape_wrong)
                continue;
            bool is_read = false, is_felt = false;
            for (const RunPair& later : result_.pairs)
                if (reads(a_, later.a, pair.a) && reads(b_, later.b, pair.b)) {
                    is_read = true;
                    is_felt = is_felt || later.likeness == Likeness::different;
                }
            pair.has_effect = !is_read || is_felt;
        }
    }

private:
    Off judge_numbers(RunPair& pair, const Aligned& both, const Off& before)
    {
        constexpr double growth = 8; // of what the operands are off by, in one step
        constexpr double peak = 8;   // the largest of many roundings over their root mean square
        const Apart apart = measure(both);
        pair.part = part_text(both);
        if (apart.count == 0)
            return {};
        pair.off = apart.off();
        pair.largest = apart.largest;
        pair.a_worst = index_in(both.a, apart.worst);
        pair.b_worst = index_in(both.b, apart.worst);
        pair.a_value = value_at(both.a, apart.worst);
        pair.b_value = value_at(both.b, apart.worst);
        if (apart.differing == 0)
            return {};
        const bool is_counted = both.a.array->type != ElementType::real && both.b.array->type != ElementType::real;
        type_ = shorter(type_, shorter(type_of(*both.a.array), type_of(*both.b.array)));
        result_.type = type_;
        const double roundings = roundings_of(type_);
        const bool is_nothing_else = apart.is_finite && apart.rms <= roundings * operand_size(pair);
        pair.allowed = is_counted ? 0 : is_nothing_else ? 2 : roundings + growth * before.rms;
        const bool is_within =
            apart.off() <= pair.allowed && apart.largest <= peak * roundings + peak * growth * before.largest;
        const bool is_rounding = !is_counted && apart.is_finite && (is_nothing_else || is_within);
        pair.likeness = is_rounding ? Likeness::rounding : Likeness::different;
        return {.rms = is_rounding ? apart.off() : 0,
                .largest = is_rounding ? apart.largest : 0,
                .is_different = !is_rounding};
    }

    void add_unshared(char run, const RecordedRun& arrays, const std::string& name, std::string RunPair::*own,
                      std::vector<Unshared>& unshared) const
    {
        for (const std::string& read : reads_of(arrays, name))
            if (std::ranges::find(result_.pairs, read, own) == result_.pairs.end())
                unshared.push_back({run, read, origin_of(arrays, read)});
    }

    static double value_at(const View& view, std::size_t place)
    {
        const Shape index = index_at(place, view.shape);
        std::size_t offset = view.begin;
        for (std::size_t i = 0; i < index.size(); ++i)
            offset += index[i] * view.strides[i];
        return view.array->values[offset];
    }

    static std::optional<Origin> origin_of(const RecordedRun& run, const std::string& name)
    {
        const auto found = run.origins.find(name);
        return found == run.origins.end() ? std::nullopt : std::optional(found->second);
    }

    /// What an array was computed from is off by, in both runs.
    Off off_of_operands(const RunPair& pair)
    {
        Off off;
        for (const std::string& read : reads_of(a_, pair.a))
            off.take(off_by(a_, off_by_a_, read));
        for (const std::string& read : reads_of(b_, pair.b))
            off.take(off_by(b_, off_by_b_, read));
        return off;
    }

    /// That of an array; where it has no pair, of those that it was computed from.
    Off off_by(const RecordedRun& run, std::map<std::string, Off>& known, const std::string& name)
    {
        if (const auto found = known.find(name); found != known.end())
            return found->second;
        Off& off = known[name]; // so that what reads itself ends
        Off found;
        for (const std::string& read : reads_of(run, name))
            found.take(off_by(run, known, read));
        return off = found;
    }

    /// The largest root mean square of the arrays that one was computed from, in A.
    double operand_size(const RunPair& pair) const
    {
        double size = 0;
        for (const std::string& read : reads_of(a_, pair.a))
            for (const auto& [name, array] : a_.arrays)
                if (name == read)
                    size = std::max(size, root_mean_square(array));
        return size;
    }

    static double root_mean_square(const Array& array)
    {
        double squares = 0;
        for (const double number : array.values)
            squares += std::isfinite(number) ? number * number : 0;
        return array.values.empty() ? 0 : std::sqrt(squares / static_cast<double>(array.size()));
    }

    static const std::vector<std::string>& reads_of(const RecordedRun& run, const std::string& name)
    {
        static const std::vector<std::string> none;
        const auto found = run.origins.find(name);
        return found == run.origins.end() ? none : found->second.reads;
    }

    static bool reads(const RecordedRun& run, const std::string& name, const std::string& read)
    {
        const std::vector<std::string>& all = reads_of(run, name);
        return std::ranges::find(all, read) != all.end();
    }

    const RecordedRun &a_, &b_;
    RunsDiff& result_;
    bool knows_reads_ = false;
    NumberType type_ = NumberType::float64; ///< the shortest so far
    std::map<std::string, Off> off_by_a_, off_by_b_;
    Off all_before_;
};

// ------------------------------------------------------------------------------------------------ layers

/// A name up to its first number: the layer that it is of; empty where it has none.
std::string layer_of(const std::string& name)
{
    for (std::size_t begin = 0; begin < name.size();) {
        const std::size_t end = std::min(name.find('.', begin), name.size());
        const std::string_view word = std::string_view(name).substr(begin, end - begin);
        if (!word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos)
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

std::vector<std::string> names_without(const RecordedRun& run, const std::vector<RunPair>& pairs,
                                       std::string RunPair::*name)
{
    std::vector<std::string> names;
    for (const auto& [own, array] : run.arrays)
        if (std::ranges::find(pairs, own, name) == pairs.end())
            names.push_back(own);
    return names;
}

} // namespace

std::string_view name_of(Likeness likeness)
{
    return likeness == Likeness::equal ? "bits equal" : likeness == Likeness::rounding ? "rounding" : "different";
}

RecordedRun read_run(const std::filesystem::path& path)
{
    RecordedRun run;
    read_each_array(path,
                    [&](const std::string& name, Array array) { run.arrays.emplace_back(name, std::move(array)); });
    run.origins = read_listing(path).origins;
    return run;
}

const RunPair* RunsDiff::first_different() const
{
    const auto is_first = [](const RunPair& pair) {
        return pair.likeness == Likeness::different && !pair.follows && pair.has_effect;
    };
    auto found = std::ranges::find_if(pairs, is_first);
    if (found == pairs.end())
        found = std::ranges::find(pairs, Likeness::different, &RunPair::likeness);
    return found == pairs.end() ? nullptr : &*found;
}

std::size_t RunsDiff::count(Likeness likeness) const
{
    return static_cast<std::size_t>(std::ranges::count(pairs, likeness, &RunPair::likeness));
}

bool RunsDiff::passed() const { return !pairs.empty() && count(Likeness::different) == 0; }

RunsDiff compare_runs(const RecordedRun& a, const RecordedRun& b)
{
    RunsDiff result;
    const Pairings pairings = pair_arrays(a, b);
    result.is_search_cut = pairings.is_search_cut;
    Judge judge(a, b, result);
    for (const Pairing& pairing : pairings.pairs)
        judge.judge(pairing);
    judge.find_unshared();
    judge.find_effects();
    result.only_a = names_without(a, result.pairs, &RunPair::a);
    result.only_b = names_without(b, result.pairs, &RunPair::b);
    // the shorter run has no names of calls and steps
    result.layers = growth_of(result.pairs, a.arrays.size() <= b.arrays.size() ? &RunPair::a : &RunPair::b);
    return result;
}

} // namespace attn::diff
