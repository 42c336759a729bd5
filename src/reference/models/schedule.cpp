#include "attn/reference/models/schedule.hpp"

#include "attn/core/error.hpp"
#include "paged_cache.hpp"
#include "stored_cache.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace attn {
namespace {

using Call = std::vector<Segment>;

std::string text_of(const Segment& segment)
{
    return "tokens " + std::to_string(segment.begin) + " to " + std::to_string(segment.end) + " of sequence " +
           std::to_string(segment.sequence);
}

// ----------------------------------------------------------------------------------------------------- what a call asks

void expect_call(const Call& call, const std::vector<Integers>& sequences)
{
    if (call.empty())
        throw Error("run_schedule: a call has no segment, expected one or more");
    std::vector<bool> is_in_call(sequences.size());
    for (const Segment& segment : call) {
        if (segment.sequence >= sequences.size() || segment.after.value_or(0) >= sequences.size())
            throw Error("run_schedule: " + text_of(segment) + ": there are " + std::to_string(sequences.size()) +
                        " sequences");
        if (segment.begin >= segment.end || segment.end > sequences[segment.sequence].size())
            throw Error("run_schedule: " + text_of(segment) + ": the sequence has " +
                        std::to_string(sequences[segment.sequence].size()) + " tokens, and a segment at least one");
        if (is_in_call[segment.sequence])
            throw Error("run_schedule: sequence " + std::to_string(segment.sequence) + " is twice in one call");
        is_in_call[segment.sequence] = true;
    }
}

// ---------------------------------------------------------------------------------------------------- what comes of it

/// The logits of the tokens that each sequence has had so far: rows of what calls gave.
class Results {
public:
    /// @param has_logits  false where the tokens after the last layer are what a call gives
    Results(std::size_t sequences, bool has_logits)
        : name_(has_logits ? "logits" : "output"),
          label_(has_logits ? "logits[n, vocabulary]" : "output[n, d_model]"),
          rows_(sequences),
          before_(sequences)
    {
    }

    /// @param scope  of the call, in that of the schedule
    void add_call(const std::string& scope, Matrix logits)
    {
        paths_.push_back(scope + "." + name_);
        logits_.push_back(std::move(logits));
    }
    /// The logits of the newest call have those of a segment, from a row on; its earlier tokens are those before the call.
    void add(const Segment& segment, std::size_t row)
    {
        std::vector<Row>& rows = rows_[segment.sequence];
        rows = before_[segment.after.value_or(segment.sequence)];
        rows.resize(segment.begin);
        for (std::size_t i = segment.begin; i < segment.end; ++i)
            rows.push_back({logits_.size() - 1, row++});
    }
    void end_call() { before_ = rows_; }

    /// Each sequence's, put together. One that was given no token is no step.
    std::vector<Matrix> all(const Trace& trace) const
    {
        std::vector<Matrix> all;
        for (std::size_t i = 0; i < rows_.size(); ++i)
            all.push_back(rows_[i].empty() ? together(rows_[i])
                                           : trace.scope("sequences", i)(
                                                 label_, [&] { return formula(rows_[i]); }, together(rows_[i])));
        return all;
    }

private:
    struct Row {
        std::size_t call, row;
    };

    Matrix together(const std::vector<Row>& rows) const
    {
        Matrix all(Matrix::shape_type{rows.size(), logits_.empty() ? 0 : logits_.front().shape(1)});
        for (std::size_t i = 0; i < rows.size(); ++i)
            xt::row(all, static_cast<std::ptrdiff_t>(i)) =
                xt::row(logits_[rows[i].call], static_cast<std::ptrdiff_t>(rows[i].row));
        return all;
    }

    /// concat(calls.0.logits[0:3], calls.1.logits[0:1], axis=0)
    std::string formula(const std::vector<Row>& rows) const
    {
        std::string parts;
        std::size_t count = 0;
        for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end, ++count) {
            const auto [call, first] = rows[begin];
            for (end = begin + 1; end < rows.size() && rows[end].call == call; ++end)
                continue;
            parts += (count == 0 ? "" : ", ") + paths_[call] + "[" + std::to_string(first) + ":" +
                     std::to_string(first + end - begin) + "]";
        }
        return count == 1 ? parts : "concat(" + parts + ", axis=0)";
    }

    std::string name_, label_;
    std::vector<std::vector<Row>> rows_, before_;
    std::vector<std::string> paths_;
    std::vector<Matrix> logits_;
};

// ------------------------------------------------------------------------------------------ keys and values, in one row

/// The segment of a call that is of a sequence.
const Segment* segment_of(std::size_t sequence, const Call& call)
{
    const auto found = std::ranges::find(call, sequence, &Segment::sequence);
    return found == call.end() ? nullptr : &*found;
}

/// @param last  how far the tokens reach that the cache has
Error nothing_to_follow(const Segment& segment, std::size_t count, std::size_t last)
{
    return Error("run_schedule: " + text_of(segment) + " follow " + std::to_string(segment.begin) +
                 " tokens, and the cache has " + std::to_string(count) + " of these, up to " + std::to_string(last));
}

/// The cache that a call goes on with: of each of its sequences the tokens before its segment, of the others all.
PlacedCache before(const PlacedCache& cache, const Call& call, const Schedule& schedule, std::size_t sequences)
{
    const auto& [owners, positions] = cache.places;
    std::vector<std::size_t> tokens, of_sequence;
    for (std::size_t sequence = 0; sequence < sequences; ++sequence) {
        const Segment* const segment = segment_of(sequence, call);
        const auto source =
            static_cast<std::int64_t>(segment != nullptr ? segment->after.value_or(sequence) : sequence);
        std::size_t last = 0, count = 0; // how far they reach, and how many they are
        for (std::size_t token = 0; token < owners.size(); ++token) {
            const auto position = static_cast<std::size_t>(positions(token));
            if (owners(token) != source || (segment != nullptr && position >= segment->begin))
                continue;
            tokens.push_back(token);
            of_sequence.push_back(sequence);
            last = std::max(last, position + 1);
            ++count;
        }
        if (segment == nullptr)
            continue;
        const std::size_t near = std::min(segment->begin, schedule.ring.value_or(segment->begin));
        const std::size_t needed = near + std::min(segment->begin - near, schedule.kept);
        if (last != segment->begin || count < needed)
            throw nothing_to_follow(*segment, count, last);
    }
    PlacedCache kept = chosen(cache, tokens);
    std::ranges::copy(of_sequence, kept.places.sequences.begin());
    return kept;
}

/// Leaves so many of the last tokens of each sequence, and of the first.
PlacedCache within_ring(const PlacedCache& cache, std::size_t ring, std::size_t kept, std::size_t sequences)
{
    const auto& [owners, positions] = cache.places;
    std::vector<std::int64_t> ends(sequences, 0);
    for (std::size_t token = 0; token < owners.size(); ++token) {
        std::int64_t& end = ends[static_cast<std::size_t>(owners(token))];
        end = std::max(end, positions(token) + 1);
    }
    std::vector<std::size_t> tokens;
    for (std::size_t token = 0; token < owners.size(); ++token) {
        const std::int64_t from_end = ends[static_cast<std::size_t>(owners(token))] - positions(token);
        if (static_cast<std::size_t>(positions(token)) < kept || static_cast<std::size_t>(from_end) <= ring)
            tokens.push_back(token);
    }
    return chosen(cache, tokens);
}

void expect_ring(const Schedule& schedule, const LanguageModelDescription& description)
{
    const auto reaches_beyond = [&](const BlockDescription& layer) {
        return std::min(layer.window.value_or(-1), layer.chunk.value_or(-1)) > *schedule.ring;
    };
    if (schedule.ring && std::ranges::any_of(description.layers, reaches_beyond))
        throw Error("run_schedule: a ring of " + std::to_string(*schedule.ring) +
                    " tokens forgets what a layer attends to, since it has a wider window or none");
    if (!schedule.ring && schedule.kept > 0)
        throw Error("run_schedule: " + std::to_string(schedule.kept) +
                    " first tokens are kept beside a ring, and there is none: everything is kept");
    const auto keeps_more = [&](const BlockDescription& layer) { return layer.kept > schedule.kept; };
    if (schedule.ring && std::ranges::any_of(description.layers, keeps_more))
        throw Error("run_schedule: a ring beside " + std::to_string(schedule.kept) +
                    " first tokens forgets what a layer attends to, since its window keeps more of them");
}

/// The tokens of a call, side by side.
struct CallTokens {
    Integers ids;
    Places places;
};

CallTokens tokens_of(const Call& call, const std::vector<Integers>& sequences)
{
    std::size_t count = 0;
    for (const Segment& segment : call)
        count += segment.end - segment.begin;
    const Integers none(Integers::shape_type{count}, 0);
    CallTokens all{none, {none, none}};
    std::size_t row = 0;
    for (const Segment& segment : call)
        for (std::size_t i = segment.begin; i < segment.end; ++i, ++row) {
            all.ids(row) = sequences[segment.sequence](i);
            all.places.sequences(row) = static_cast<std::int64_t>(segment.sequence);
            all.places.positions(row) = static_cast<std::int64_t>(i);
        }
    return all;
}

/// The cache that is in pages, where the schedule asks for that.
std::optional<PagedCache> pages_of(const Schedule& schedule, const std::vector<Integers>& sequences,
                                   const LanguageModelDescription& description)
{
    if (!schedule.pages)
        return {};
    if (schedule.ring)
        throw Error("run_schedule: a cache is a ring or in pages, and the schedule has both");
    if (schedule.cache)
        throw Error("run_schedule: a cache is in fewer bits or in pages, and the schedule has both");
    std::vector<std::size_t> lengths;
    for (const Integers& sequence : sequences)
        lengths.push_back(sequence.size());
    return PagedCache(*schedule.pages, lengths, description.first_layer);
}

void expect_in_pages(const Call& call, const PagedCache& pages)
{
    for (const Segment& segment : call)
        if (const std::size_t has = pages.tokens_of(segment.after.value_or(segment.sequence)); has < segment.begin)
            throw nothing_to_follow(segment, has, has);
}

/// Gives back the pages of sequences that no call from this one on has.
void leave(PagedCache& pages, const Schedule& schedule, std::size_t next, std::size_t sequences)
{
    for (std::size_t sequence = 0; sequence < sequences; ++sequence)
        if (std::none_of(schedule.calls.begin() + static_cast<std::ptrdiff_t>(next), schedule.calls.end(),
                         [&](const Call& call) {
                             return std::ranges::any_of(call, [&](const Segment& segment) {
                                 return segment.after.value_or(segment.sequence) == sequence;
                             });
                         }))
            pages.leave(sequence);
}

std::vector<Matrix> run_packed(const std::vector<Integers>& sequences, const Schedule& schedule,
                               const LanguageModelWeights& weights, const LanguageModelDescription& description,
                               const Trace& trace)
{
    std::optional<PagedCache> pages = pages_of(schedule, sequences, description);
    expect_ring(schedule, description);
    if (schedule.cache)
        expect_storable(*schedule.cache, schedule.ring);
    Results results(sequences.size(), description.has_logits);
    PlacedCache cache;
    for (std::size_t i = 0; i < schedule.calls.size(); ++i) {
        const Call& call = schedule.calls[i];
        const Trace inside = trace.scope("calls", i);
        const auto [ids, places] = tokens_of(call, sequences);
        if (pages) {
            expect_in_pages(call, *pages);
            cache = pages->before(call, inside);
        } else {
            cache = before(cache, call, schedule, sequences.size());
        }
        auto [logits, after] = language_model(ids, places, cache, weights, description, inside);
        if (schedule.cache)
            store(after, ids.size(), *schedule.cache, description.first_layer, inside);
        if (pages) {
            pages->keep(call, after, inside);
            leave(*pages, schedule, i + 1, sequences.size());
        } else {
            cache =
                schedule.ring ? within_ring(after, *schedule.ring, schedule.kept, sequences.size()) : std::move(after);
        }
        results.add_call("calls." + std::to_string(i), std::move(logits));
        std::size_t row = 0;
        for (const Segment& segment : call) {
            results.add(segment, row);
            row += segment.end - segment.begin;
        }
        results.end_call();
    }
    return results.all(trace);
}

// -------------------------------------------------------------------------------------------- states, one by one

/// What a model with states keeps of a sequence: it can be continued, or begun anew, but nothing of it taken back.
struct SequenceCache {
    LanguageModelCache<Matrix> layers = {};
    std::size_t length = 0;
};

std::vector<Matrix> run_one_by_one(const std::vector<Integers>& sequences, const Schedule& schedule,
                                   const LanguageModelWeights& weights, const LanguageModelDescription& description,
                                   const Trace& trace)
{
    if (schedule.ring || schedule.kept > 0)
        throw Error("run_schedule: a state forgets by itself, and keeps no ring of tokens");
    if (schedule.pages)
        throw Error("run_schedule: a state is no row of each token, which pages could have");
    if (schedule.cache)
        throw Error(
            "run_schedule: a cache of fewer bits has keys and values, and the model has a state in their place");
    Results results(sequences.size(), description.has_logits);
    std::vector<SequenceCache> caches(sequences.size());
    for (std::size_t i = 0; i < schedule.calls.size(); ++i) {
        const Trace inside = trace.scope("calls", i);
        const std::vector<SequenceCache> old = caches; // where beams are swapped, each goes on from another's
        for (const Segment& segment : schedule.calls[i]) {
            const SequenceCache& past =
                segment.begin == 0 ? SequenceCache() : old[segment.after.value_or(segment.sequence)];
            if (past.length != segment.begin)
                throw Error("run_schedule: " + text_of(segment) + " follow " + std::to_string(segment.begin) +
                            " tokens, and the state has seen " + std::to_string(past.length) +
                            ": none of them can be taken back");
            const Integers ids = xt::view(sequences[segment.sequence], xt::range(segment.begin, segment.end));
            auto [logits, cache] =
                language_model(ids, past.layers, weights, description, inside.scope("sequence", segment.sequence));
            caches[segment.sequence] = {std::move(cache), segment.end};
            results.add_call("calls." + std::to_string(i) + ".sequence." + std::to_string(segment.sequence),
                             std::move(logits));
            results.add(segment, 0);
        }
        results.end_call();
    }
    return results.all(trace);
}

// ----------------------------------------------------------------------------------------------------------- schedules

/// Calls until all sequences have ended.
/// @param ends  (call, length): how many tokens a sequence has had after a call; first of sequence 0
template <class Ends>
Schedule by_ends(const std::vector<std::size_t>& lengths, const Ends& ends)
{
    Schedule schedule;
    std::vector<std::size_t> had(lengths.size(), 0);
    for (std::size_t i = 0; had != lengths; ++i) {
        Call call;
        for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence) {
            const std::size_t end = std::min(ends(i, sequence), lengths[sequence]);
            if (end > had[sequence])
                call.push_back({sequence, std::exchange(had[sequence], end), end});
        }
        if (!call.empty())
            schedule.calls.push_back(std::move(call));
    }
    return schedule;
}

void expect_some(std::string_view what, std::size_t number)
{
    if (number == 0)
        throw Error("a schedule's " + std::string(what) + " is 0, expected 1 or more");
}

/// A schedule by its name, and by a number where it takes one.
struct ScheduleRow {
    std::string_view name;
    bool takes_number;
    Schedule (*make)(const std::vector<std::size_t>& lengths, std::size_t number);
};

constexpr std::array schedules{
    ScheduleRow{"at-once", false, [](const auto& lengths, std::size_t) { return at_once(lengths); }},
    ScheduleRow{"packed", false, [](const auto& lengths, std::size_t) { return packed(lengths); }},
    ScheduleRow{"steps", true, step_by_step},
    ScheduleRow{"chunks", true, in_chunks},
    ScheduleRow{"ring", true, in_ring},
    ScheduleRow{"joined", true, joined_later},
    ScheduleRow{"pages", true, paged},
};

} // namespace

Schedule at_once(const std::vector<std::size_t>& lengths)
{
    Schedule schedule;
    for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence)
        if (lengths[sequence] > 0)
            schedule.calls.push_back({{sequence, 0, lengths[sequence]}});
    return schedule;
}

Schedule packed(const std::vector<std::size_t>& lengths)
{
    return by_ends(lengths, [&](std::size_t, std::size_t sequence) { return lengths[sequence]; });
}

Schedule step_by_step(const std::vector<std::size_t>& lengths, std::size_t prefill)
{
    expect_some("prefill", prefill);
    return by_ends(lengths, [=](std::size_t call, std::size_t) { return prefill + call; });
}

Schedule in_chunks(const std::vector<std::size_t>& lengths, std::size_t size)
{
    expect_some("chunk", size);
    return by_ends(lengths, [=](std::size_t call, std::size_t) { return (call + 1) * size; });
}

Schedule in_ring(const std::vector<std::size_t>& lengths, std::size_t ring)
{
    expect_some("ring", ring);
    Schedule schedule = in_chunks(lengths, 1);
    schedule.ring = ring;
    return schedule;
}

Schedule joined_later(const std::vector<std::size_t>& lengths, std::size_t wait)
{
    return by_ends(lengths, [=](std::size_t call, std::size_t sequence) {
        return call + 1 > sequence * wait ? call + 1 - sequence * wait : 0;
    });
}

Schedule paged(const std::vector<std::size_t>& lengths, std::size_t size)
{
    expect_some("page", size);
    Schedule schedule = step_by_step(lengths, size);
    schedule.pages = PagePool{.size = size};
    return schedule;
}

Schedule schedule_called(std::string_view text, const std::vector<std::size_t>& lengths)
{
    const std::size_t colon = text.find(':');
    const auto row = std::ranges::find(schedules, text.substr(0, colon), &ScheduleRow::name);
    std::size_t number = 0;
    bool is_read = colon == std::string_view::npos;
    if (!is_read) {
        const char *const first = text.data() + colon + 1, *const last = text.data() + text.size();
        const auto [end, error] = std::from_chars(first, last, number);
        is_read = error == std::errc() && end == last;
    }
    if (row == schedules.end() || !is_read || row->takes_number == (colon == std::string_view::npos)) {
        std::string names;
        for (const ScheduleRow& known : schedules)
            names += (names.empty() ? "" : ", ") + std::string(known.name) + (known.takes_number ? ":N" : "");
        throw Error("there is no schedule '" + std::string(text) + "', expected one of " + names);
    }
    return row->make(lengths, number);
}

std::vector<Matrix> run_schedule(const std::vector<Integers>& sequences, const Schedule& schedule,
                                 const LanguageModelWeights& weights, const LanguageModelDescription& description,
                                 const Trace& trace)
{
    for (const Call& call : schedule.calls)
        expect_call(call, sequences);
    return has_states(weights) ? run_one_by_one(sequences, schedule, weights, description, trace)
                               : run_packed(sequences, schedule, weights, description, trace);
}

} // namespace attn
