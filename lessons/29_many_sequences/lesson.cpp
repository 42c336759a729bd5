// Lesson 29: many sequences at once.
//
// A server reads many texts in one call, and they have different lengths: padded on
// either side, packed into one row, coming and going, with keys and values in pages of
// a pool. Each text has to get what it gets alone.

#include "../lesson.hpp"
#include "../numbers.hpp"
#include "../recorded.hpp"
#include "../small_model.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/layers/pages.hpp"
#include "attn/reference/models/schedule.hpp"
#include "attn/reference/ops/remainder.hpp"

#include <algorithm>
#include <tuple>

using namespace attn;

namespace {

/// The requests of the lesson: their words, one request after the other.
struct Requests {
    Term<Integers> ids;
    Term<Vector> lengths, starts; ///< of each: its words, and those before it
    Term<Matrix> words;           ///< embedded; the row after them is padding
    Term<Matrix> table;           ///< of positions
    std::vector<Integers> each;
};

/// The small model, for words that are embedded already.
struct Reader {
    SmallModel model;
    Term<Matrix> table; ///< of words
};

struct Pool;

// The helpers of teach(), which stand below it in this order.
Requests take_requests(Lesson& lesson, const Reader& reader);
Term<Matrix> pad_rows(Lesson& lesson, const Requests& requests, const Reader& reader);
Term<Matrix> pack_row(Lesson& lesson, const Requests& requests, const Reader& reader);
void take_seats(Lesson& lesson);
void serve(Lesson& lesson, const Requests& requests, const SmallModel& model);
void fill_pages(Lesson& lesson, const Requests& requests);
void count_blocks(Lesson& lesson, const Trace& trace, const Pool& pool);
void count_published(Lesson& lesson);

void teach(Lesson& lesson)
{
    lesson.heading("1. Three requests, padded on either side");
    const SmallModel model = small_model();
    const Reader reader{model,
                        lesson.trace().given("token_embedding[vocabulary, d_model]",
                                             model.weights.token_embedding)};
    const Requests requests = take_requests(lesson, reader);
    const Term padded = pad_rows(lesson, requests, reader);

    lesson.heading("2. Packed into one row");
    const Term packed = pack_row(lesson, requests, reader);
    lesson.expect_equal("packed, each request gets what it gets padded", packed, padded);

    lesson.heading("3. Requests that come and go");
    take_seats(lesson);
    if (lesson.is_example())
        serve(lesson, requests, model);

    lesson.heading("4. Pages");
    fill_pages(lesson, requests);

    lesson.heading("5. The memory of a published model");
    count_published(lesson);
}

/// 0, 1, …, count - 1
Term<Vector> numbers_to(std::size_t count, const Trace& trace)
{
    return arange(number(static_cast<double>(count), trace));
}

void expect_requests(const Integers& ids, const Integers& lengths, std::size_t positions)
{
    double tokens = 0;
    for (const std::int64_t length : lengths) {
        if (length < 1)
            throw Error("lengths: a request has " + std::to_string(length) +
                        " words, expected 1 or more");
        tokens += static_cast<double>(length);
    }
    if (tokens != static_cast<double>(ids.size()))
        throw Error("lengths: the requests have " + exact_text(tokens) +
                    " words together, and ids has " + std::to_string(ids.size()));
    if (ids.size() > positions)
        throw Error("ids has " + std::to_string(ids.size()) +
                    " words, expected at most " + std::to_string(positions) +
                    ": one way of this lesson counts positions through all of them");
}

Requests take_requests(Lesson& lesson, const Reader& reader)
{
    const auto& [model, words] = reader;
    const Trace& trace = lesson.trace();
    const Term ids = lesson.input(
        "ids[t]", model.ids("Lily had a red ball . She took the "
                            "Tom had a blue kite . He carried the kite to the park . "
                            "The kite was "
                            "Ben got a green hat ."));
    const Term counts = lesson.input("lengths[b]", Integers{9, 17, 6});
    expect_requests(*ids, *counts, model.weights.position_embedding.shape(0));
    const Term lengths = reals(counts);
    const Term request = numbers_to(lengths.size(), trace);
    const Term before = matmul(ones(request < each_row(request)), lengths);
    const Term padding = slice(words, 0, 1);
    Requests requests{ids,
                      lengths,
                      reals(trace("starts[b]", wholes(before))),
                      trace("words[rows, d_model]",
                            concat(std::vector{take_rows(words, ids), padding}, 0)),
                      trace.given("position_embedding[n_max, d_model]",
                                  model.weights.position_embedding),
                      {}};
    std::size_t begin = 0;
    for (const std::int64_t length : *counts) {
        const std::size_t end = begin + static_cast<std::size_t>(length);
        requests.each.emplace_back(xt::view(*ids, xt::range(begin, end)));
        begin = end;
    }
    return requests;
}

/// Passes embedded words through the model.
/// @param ends  of each request, the row of its last word, where all rows of a batch are
///              one below the other
/// @return for each request the probabilities of the next word
template <Traceable T>
Term<Matrix> read(const Trace& run, const Term<T>& x, const OptionalMask& mask,
                  const Term<Integers>& ends, const Reader& reader)
{
    const auto& [model, table] = reader;
    const EncoderOptions options{.attention = {.heads = model.heads, .mask = mask},
                                 .placement = NormPlacement::pre};
    const EncoderWeights weights{model.weights.layers, model.weights.norm};
    const Term output = encoder(x, weights, options, run);
    const std::size_t features = table.shape(1);
    const Term rows = reshape<Matrix>(output, {x.size() / features, features});
    const Term last = run("last[b, d_model]", take_rows(rows, ends));
    return run("chances[b, vocabulary]", softmax(matmul(last, transpose(table))));
}

// ---------------------------------------------------------------------- padded rows

/// Requests as rows of a batch.
struct Batch {
    Term<Mask> real;        ///< (b, n): false at padding
    Term<Matrix> positions; ///< (b, n): of each word in its own request
    Term<IntegerMatrix>
        source;          ///< (b, n): which of all words; that after them is padding
    Term<Integers> ends; ///< (b): see read()
};

/// @param real     where words stand
/// @param columns  of the last word of each
Batch batch_of(const Trace& run, const Requests& requests, const Term<Mask>& real_places,
               const Term<Vector>& columns)
{
    const Term width = number(static_cast<double>(real_places->shape(1)), run);
    //! [positions]
    const Term real = run("real[b, n]", real_places);
    const Term place = arange(width);
    const Term words_so_far = matmul(ones(real), ones(each_row(place) <= place));
    const Term positions =
        reals(run("positions[b, n]", wholes(maximum(words_so_far - 1, 0))));
    //! [positions]
    const Term request = numbers_to(columns.size(), run);
    const Term word = where(real, each_row(requests.starts) + positions,
                            static_cast<double>(requests.ids.size()));
    return {real, positions, run("source[b, n]", wholes(word)),
            run("ends[b]", wholes(width * request + columns))};
}

Term<Tensor3> embed(const Trace& run, const Requests& requests, const Batch& batch,
                    const Term<Matrix>& positions)
{
    return run("embedded[b, n, d_model]",
               take_rows(requests.words, batch.source) +
                   take_rows(requests.table, wholes(positions)));
}

/// A causal mask in which padding is no key.
OptionalMask without_padding(const Trace& run, const Batch& batch)
{
    const std::size_t n = batch.real->shape(1);
    run.alias("padding", "real");
    return join_masks(n, n, {.causal = Causal::bottom_right, .padding = *batch.real},
                      run);
}

/// @return for each request the probabilities of its next word
Term<Matrix> pad_rows(Lesson& lesson, const Requests& requests, const Reader& reader)
{
    const Trace& trace = lesson.trace();
    const Term lengths = requests.lengths;
    const Term n = number(*max_all(lengths), trace);
    const Term place = arange(n);
    const Trace right = trace.scope("right"), left = trace.scope("left");
    //! [sides]
    const Term on_right = place < each_row(lengths);
    const Term on_left = place >= each_row(n - lengths);
    //! [sides]
    const auto run = [&](const Trace& inside, const Batch& batch,
                         const Term<Matrix>& positions) {
        const Term embedded = embed(inside, requests, batch, positions);
        return read(inside, embedded, without_padding(inside, batch), batch.ends, reader);
    };
    const Batch padded_right = batch_of(right, requests, on_right, lengths - 1);
    const Term chances = run(right, padded_right, padded_right.positions);
    const Batch padded_left = batch_of(left, requests, on_left, n - 1 + 0 * lengths);
    lesson.expect_equal("padded on the left, requests get what they get on the right",
                        run(left, padded_left, padded_left.positions), chances);

    // What goes wrong: the last column, padding that counts, and padding that is seen.
    const Trace column = right.scope("column"), counted = left.scope("counted"),
                seen = left.scope("seen");
    const Term output = recorded<Tensor3>(lesson, "right.norm.output");
    const Term rows =
        reshape<Matrix>(output, {output.size() / output.shape(2), output.shape(2)});
    const Term last = column("last[b, d_model]", take_rows(rows, padded_left.ends));
    std::ignore =
        column("chances[b, vocabulary]", softmax(matmul(last, transpose(reader.table))));
    const Term columns =
        reals(counted("columns[b, n]", wholes(place + 0 * padded_left.positions)));
    std::ignore = run(counted, padded_left, columns);
    const Term embedded = embed(seen, requests, padded_left, padded_left.positions);
    const Mask causal =
        causal_mask(place.size(), place.size(), Causal::bottom_right, seen);
    seen.alias("mask", "causal");
    std::ignore = read(seen, embedded, causal, padded_left.ends, reader);
    const Term padding = trace("padding", 1 - mean_all(ones(padded_right.real)));
    lesson.table({"share of the batch that is padding"}, {{*padding}});
    return chances;
}

// ----------------------------------------------------------------------- a packed row

Term<Matrix> pack_row(Lesson& lesson, const Requests& requests, const Reader& reader)
{
    const auto& [ids, lengths, starts, words, table, each] = requests;
    const Trace packed = lesson.trace().scope("packed");
    const Term place = numbers_to(ids.size(), packed);
    //! [packed]
    const Term begun = packed("begun[t, b]", each_row(place) >= starts);
    const Term request = packed("request[t]", sum_along(ones(begun), 1) - 1);
    const Term first = max_along(ones(begun) * starts, 1);
    const Term positions = packed("positions[t]", wholes(place - first));
    const Term same = packed("same[t, m]", request == each_row(request));
    const Term causal = packed("causal[t, m]", place <= each_row(place));
    const Term mask = packed("mask[t, m]", same & causal);
    //! [packed]
    const Term ends = packed("ends[b]", wholes(starts + lengths - 1));
    const Term told = slice(words, 0, ids.size());
    const Term embedded =
        packed("embedded[t, d_model]", told + take_rows(table, positions));
    const Term chances = read(packed, embedded, *mask, ends, reader);

    // What goes wrong: requests that see each other, and positions of the row.
    const Trace leaking = packed.scope("leaking"), row = packed.scope("row");
    leaking.alias("mask", "causal");
    std::ignore = read(leaking, embedded, *causal, ends, reader);
    const Term counted = row("embedded[t, d_model]", told + slice(table, 0, ids.size()));
    std::ignore = read(row, counted, *mask, ends, reader);

    const Trace scores = packed.scope("scores");
    const Term n = max_all(lengths), tokens = sum_all(lengths),
               batch = number(static_cast<double>(lengths.size()), scores);
    const Term of_batch = scores("padded", batch * square(n)),
               of_row = scores("packed", square(tokens)),
               needed = scores("needed", sum_all(square(lengths)));
    lesson.table(
        {"scores of a head: padded", "packed, as one mask", "packed, by lengths"},
        {{*of_batch, *of_row, *needed}});
    return chances;
}

// -------------------------------------------------------- requests that come and go

/// How many calls it takes to write answers of different lengths with a few seats: in
/// batches that end together, and where a seat is taken as soon as it is free.
void take_seats(Lesson& lesson)
{
    const Term given = lesson.input("wanted[answers]", Integers{3, 9, 2, 4, 6, 2});
    const Term given_seats = lesson.input("seats[one]", Integers{3});
    const std::int64_t count = (*given_seats)(0);
    if (count < 1 || count > static_cast<std::int64_t>(given.size()) ||
        static_cast<std::int64_t>(given.size()) % count != 0 ||
        std::ranges::any_of(*given, [](std::int64_t words) { return words < 1; }))
        throw Error(
            "wanted has " + std::to_string(given.size()) + " answers, and there are " +
            std::to_string(count) +
            " seats: expected answers of 1 word or more, as many as fill the seats "
            "a few times");
    const Term wanted = reals(given);
    const auto seats = static_cast<std::size_t>(count);
    const Trace calls = lesson.trace().scope("calls", {{"wanted", "wanted"}});
    const Term batches =
        reshape<Matrix>(in_front(wanted), {wanted.size() / seats, seats});
    const Term waiting = calls("together", sum_all(max_along(batches, 1)));

    // Each answer takes the seat that is free first.
    const Term seat = in_front(numbers_to(seats, calls));
    Term busy = calls("busy[one, seats]", 0 * seat);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Trace answer = calls.scope("answer", i);
        const Term until = answer.alias("until", busy);
        //! [seats]
        const Term begins = answer("begins", min_all(until));
        const Term taken = answer(
            "seat", min_all(where(until == begins, seat, static_cast<double>(seats))));
        busy = answer("busy[one, seats]",
                      where(seat == taken, begins + row(wanted, i), until));
        //! [seats]
    }
    const Term joining = calls("joining", max_all(busy));
    const Term words = sum_all(wanted);
    const Term rows = number(static_cast<double>(seats), calls);
    const Term together = calls("share_together", words / (rows * waiting)),
               at_once = calls("share_joining", words / (rows * joining));
    lesson.table({"calls: batches that end together", "seats taken at once",
                  "share of rows in use", "of those"},
                 {{*waiting, *joining, *together, *at_once}});
}

/// The whole model, with requests alone, side by side, joining later, and in pages.
void serve(Lesson& lesson, const Requests& requests, const SmallModel& model)
{
    const LanguageModelWeights weights = as_language_model(model.weights);
    LanguageModelDescription description;
    description.layers.resize(weights.layers.size());
    for (BlockDescription& layer : description.layers)
        layer.attention.heads = model.heads;
    std::vector<std::size_t> lengths;
    for (const Integers& ids : requests.each)
        lengths.push_back(ids.size());
    std::size_t number_of_run = 0;
    const auto run = [&](const Schedule& schedule) {
        const Trace inside = lesson.unrecorded_trace().scope("serve", number_of_run++);
        return run_schedule(requests.each, schedule, weights, description, inside);
    };
    //! [schedules]
    const auto alone = run(at_once(lengths)), side_by_side = run(packed(lengths)),
               joining = run(joined_later(lengths, 3)), in_pages = run(paged(lengths, 4));
    //! [schedules]
    for (std::size_t i = 0; i < alone.size(); ++i) {
        const std::string request = "request " + std::to_string(i);
        lesson.expect_equal(request + " gets the same logits packed as alone",
                            side_by_side[i], alone[i]);
        lesson.expect_equal(request + " gets them where it joins later", joining[i],
                            alone[i]);
        lesson.expect_equal(request + " gets them from pages", in_pages[i], alone[i]);
    }
}

// ------------------------------------------------------------------------------ pages

/// A pool, and what its rows have: the number of a word of all requests, or that after
/// them where nothing was written.
struct Pool {
    Pages pages;
    Integers written;
    std::vector<std::vector<std::int64_t>> told; ///< of each request, its words so far
};

Pool empty_pool(const Requests& requests, std::int64_t size, std::int64_t blocks)
{
    if (size < 1 || blocks < 1 || size > 256 || blocks > 256)
        throw Error(
            "size and blocks say how the pool is divided: expected 1 to 256 words "
            "in a block, found " +
            std::to_string(size) + ", and 1 to 256 blocks, found " +
            std::to_string(blocks));
    const std::size_t count = requests.each.size();
    Pool pool{{static_cast<std::size_t>(size), static_cast<std::size_t>(blocks),
               std::vector<PageTable>(count)},
              Integers(Integers::shape_type{static_cast<std::size_t>(size * blocks)}),
              std::vector<std::vector<std::int64_t>>(count)};
    pool.written.fill(static_cast<std::int64_t>(requests.ids.size()));
    return pool;
}

/// The next word of a request is written behind those that it has.
void write_word(Pool& pool, const Requests& requests, std::size_t request)
{
    auto& [pages, written, told] = pool;
    const std::size_t position = told[request].size();
    if (position == requests.each[request].size())
        throw Error("events: request " + std::to_string(request) + " has all of its " +
                    std::to_string(position) + " words, and gets another");
    auto [after, copy] = grown(std::move(pages), request, 1);
    pages = std::move(after);
    for (std::size_t row = 0; copy && row < pages.size; ++row)
        written(copy->to * pages.size + row) = written(copy->from * pages.size + row);
    const Integers slots = *slots_of(pages.tables[request], pages);
    const auto word = static_cast<std::int64_t>((*requests.starts)(request)) +
                      static_cast<std::int64_t>(position);
    written(static_cast<std::size_t>(slots(position))) = word;
    told[request].push_back(word);
}

/// The last request begins as the first has begun.
void go_on_from_first(Pool& pool, const Requests& requests)
{
    auto& [pages, written, told] = pool;
    if (told.front().size() >= requests.each.back().size() || told.size() < 2)
        throw Error("events: the last request goes on after the " +
                    std::to_string(told.front().size()) +
                    " words of the first, and has no word of its own after them");
    pages.tables.back() =
        beginning_of(pages.tables.front(), told.front().size(), pages.size);
    told.back() = told.front();
}

/// Lets requests write words, leave, and go on from each other.
/// @param events  a number below b: that request gets its next word; b more: it leaves;
///                2 b: the last goes on from the first
Pool pool_after(const Integers& events, const Requests& requests, std::int64_t size,
                std::int64_t blocks)
{
    const std::size_t count = requests.each.size();
    Pool pool = empty_pool(requests, size, blocks);
    for (const std::int64_t event : events) {
        const auto number_of_event = static_cast<std::size_t>(event);
        if (event < 0 || number_of_event > 2 * count)
            throw Error("events: " + std::to_string(event) + " is none, expected 0 to " +
                        std::to_string(2 * count));
        const std::size_t request = number_of_event % count;
        if (number_of_event == 2 * count) {
            go_on_from_first(pool, requests);
        } else if (number_of_event < count) {
            write_word(pool, requests, request);
        } else {
            pool.pages.tables[request] = {};
            pool.told[request].clear();
        }
    }
    return pool;
}

/// Numbers as a tensor.
Integers integers(const std::vector<std::int64_t>& numbers)
{
    Integers all(Integers::shape_type{numbers.size()});
    std::ranges::copy(numbers, all.begin());
    return all;
}

/// The second request writes sixteen words and leaves; then the first writes, the last
/// goes on from it, and the second comes back.
Integers example_events()
{
    const std::vector<std::pair<std::int64_t, int>> runs{{1, 16}, {4, 1}, {0, 5}, {6, 1},
                                                         {2, 1},  {0, 4}, {1, 17}};
    std::vector<std::int64_t> events;
    for (const auto& [event, times] : runs)
        events.insert(events.end(), static_cast<std::size_t>(times), event);
    return integers(events);
}

/// Keys, values and queries of a head of the first layer, which a word has whatever
/// stands around it.
struct HeadRows {
    Term<Matrix> queries, keys, values;
};

/// The last word of a request attends to the words before it.
/// @param slots  the rows of the pool that it reads
Term<Matrix> attend(const Trace& inside, const Term<Integers>& slots,
                    const HeadRows& pool, const Term<Integers>& last)
{
    //! [gather]
    const Term query = inside("queries[one, d_k]", take_rows(pool.queries, last));
    const Term keys = inside("keys[m, d_k]", take_rows(pool.keys, slots));
    const Term values = inside("values[m, d_v]", take_rows(pool.values, slots));
    const Term context =
        scaled_dot_product_attention(query, keys, values, {}, inside).context;
    //! [gather]
    return context;
}

void fill_pages(Lesson& lesson, const Requests& requests)
{
    const Term size = lesson.input("size[one]", Integers{4}),
               blocks = lesson.input("blocks[one]", Integers{10}),
               events = lesson.input("events[e]", example_events());
    const Pool pool = pool_after(*events, requests, (*size)(0), (*blocks)(0));
    const Trace trace = lesson.trace().scope("pages");
    const auto of_head = [&](const char* name) {
        return recorded<Matrix>(lesson,
                                "packed.layers.0.self_attn.head.0." + std::string(name));
    };
    const HeadRows row{of_head("queries"), of_head("keys"), of_head("values")};
    const Term written = trace.given("written[slots]", pool.written);
    const HeadRows paged{
        row.queries,
        trace("key_pool[slots, d_k]", take_rows(pad(row.keys, 0, 1, 0), written)),
        trace("value_pool[slots, d_v]", take_rows(pad(row.values, 0, 1, 0), written))};
    for (std::size_t request = 0; request < pool.told.size(); ++request) {
        if (pool.told[request].empty())
            continue;
        const Trace inside = trace.scope("request", request),
                    alone = inside.scope("in_order");
        const Term told = inside.given("told[m]", integers(pool.told[request]));
        const Term last = inside.given("last[one]", Integers{pool.told[request].back()});
        const PageTable& table = pool.pages.tables[request];
        const Term context =
            attend(inside, slots_of(table, pool.pages, inside), paged, last);
        lesson.expect_equal("request " + std::to_string(request) +
                                " reads from its pages what it has written",
                            context, attend(alone, told, row, last));

        // What goes wrong: the rest of the last block is read, too.
        const Trace beyond = inside.scope("beyond");
        const PageTable whole{table.blocks, table.blocks.size() * pool.pages.size};
        const Term wrong =
            attend(beyond, slots_of(whole, pool.pages, beyond), paged, last);
        std::ignore = beyond("off", max_all(abs(wrong - context)));
    }
    count_blocks(lesson, trace, pool);
}

// ---------------------------------------------------------------- what memory is used

/// Blocks that are used, those that several requests have, and what is left over in the
/// last ones.
void count_blocks(Lesson& lesson, const Trace& trace, const Pool& pool)
{
    const WholeNumbers whole(trace);
    std::vector<std::int64_t> tokens, users;
    for (const auto& told : pool.told)
        tokens.push_back(static_cast<std::int64_t>(told.size()));
    for (const std::size_t count : users_of(pool.pages))
        users.push_back(static_cast<std::int64_t>(count));
    const Term held = whole.given("tokens[b]", integers(tokens));
    const Term of_block = whole.given("users[blocks]", integers(users));
    const Term rows =
        whole.given("rows_of_block", static_cast<std::int64_t>(pool.pages.size));
    //! [counted]
    const Term used = whole("used", sum_all(ones(in_front(of_block) > 0)));
    const Term shared = whole("shared", sum_all(of_block) - used);
    const Term blocks = whole("blocks[b]", floor_divide(held + rows - 1, rows));
    const Term rest = whole("rest[b]", rows * blocks - held);
    //! [counted]
    lesson.table({"blocks in use", "saved by sharing", "rows left over in last blocks"},
                 {{*used, *shared, *sum_all(rest)}});
}

/// Keys and values of OPT-13B and of Llama 3 8B, and what becomes of the memory for them.
void count_published(Lesson& lesson)
{
    const Trace trace = lesson.trace().scope("published");
    const WholeNumbers whole(trace);
    const Term layers = whole.given("layers[models]", {40, 32});
    const Term groups = whole.given("groups[models]", {40, 8});
    const Term d_k = whole.given("d_k[models]", {128, 128});
    //! [bytes]
    const Term per_token = layers * groups * d_k * 2 * 2;
    const Term bytes = whole("bytes[models]", per_token);
    const Term memory = whole.given("memory", std::int64_t{12} << 30);
    const Term rows = whole("rows[models]", floor_divide(memory, per_token));
    //! [bytes]

    const Term longest = whole.given("longest", 2048);
    const Term block = whole.given("block", 16);
    const Term held =
        whole.given("held[requests]", {57, 130, 310, 499, 733, 1024, 1410, 1993});
    const Term requests = size_along(held, 0);
    //! [ways]
    const Term reserved = whole("reserved", requests * longest);
    const Term padded = whole("padded", requests * max_all(held));
    const Term packed = whole("packed", sum_all(held));
    const Term paged =
        whole("paged", block * sum_all(floor_divide(held + block - 1, block)));
    //! [ways]
    const Term gib = power(number(2, trace), 30);
    const auto share = [&](const char* name, const Term<double>& taken) {
        const Trace way = trace.scope(name);
        std::ignore = way("share", packed / taken);
        return way("gib[models]", taken * bytes / gib);
    };
    lesson.table(
        {"GiB for eight requests, OPT-13B: reserved", "padded", "in pages", "packed"},
        {{(*share("if_reserved", reserved))(0), (*share("if_padded", padded))(0),
          (*share("if_paged", paged))(0), (*share("if_packed", packed))(0)}});

    // Requests of the mean lengths of ShareGPT, halfway through their answers.
    const Term prompt = trace.given("prompt", 161.31),
               answer = trace.given("answer", 337.99);
    const Term mean = trace("mean", prompt + answer / 2);
    std::ignore = trace("share_reserved", mean / longest);
    std::ignore = trace("share_paged", mean / (mean + (block - 1) / 2));
    std::ignore = whole("fit_reserved[models]", floor_divide(rows, longest));
    std::ignore = whole("fit_paged[models]", floor_divide(rows, mean + (block - 1) / 2));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("29_many_sequences", argc, argv, teach);
}
