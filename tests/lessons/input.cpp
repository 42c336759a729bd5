// What a lesson makes of a file of the user's.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npz.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"

#include <cmath>
#include <fstream>
#include <sstream>

using namespace attn;
using namespace attn::files;
using namespace attn::formula;

namespace {

Array numbers(const Shape& shape)
{
    Array array{shape, std::vector<double>(element_count(shape))};
    for (std::size_t i = 0; i < array.size(); ++i)
        array.values[i] = std::sin(static_cast<double>(3 * i + shape[0]));
    return array;
}

void write_input(const std::filesystem::path& path, std::vector<std::pair<std::string, Array>> arrays)
{
    Npz content;
    content.arrays = std::move(arrays);
    write_npz(path, content);
}

/// Inputs of lessons 1 and 2: five tokens of two features, keys of three, values of seven.
std::vector<std::pair<std::string, Array>> five_tokens()
{
    return {{"inputs", numbers({5, 2})},
            {"query_weights", numbers({2, 3})},
            {"key_weights", numbers({2, 3})},
            {"value_weights", numbers({2, 7})}};
}

/// Runs a lesson on a file and checks every step that it wrote.
Recording taught(const std::string& lesson, const std::vector<std::pair<std::string, Array>>& arrays)
{
    const TemporaryFolder folder;
    write_input(folder / "mine.npz", arrays);
    const Ended ended = run({lesson, "--input", folder / "mine.npz", "--trace", folder / "t.npz"});
    CHECK(ended.errors == "");
    REQUIRE(ended.code == 0);
    const Recording recording = read_trace(folder / "t.npz");
    CHECK(verify(recording).passed());
    return recording;
}

Shape shape_of_step(const Recording& recording, std::string_view path)
{
    const std::optional<std::size_t> step = StepNames(recording).find(path);
    return step ? recording.steps[*step].value.shape : Shape{};
}

/// Runs lesson 2 on a file that it can't use: one line, exit code 2, no trace.
std::string complaint(const std::filesystem::path& input)
{
    const TemporaryFolder folder;
    const Ended ended = run({"lesson_02_all_queries", "--input", input, "--trace", folder / "t.npz"});
    CHECK(ended.code == 2);
    CHECK(lines_in(ended.errors) == 1);
    CHECK(folder.count() == 0);
    CHECK_THAT(ended.errors, ContainsSubstring(input.string()));
    return ended.errors;
}

std::string complaint_about(std::vector<std::pair<std::string, Array>> arrays)
{
    const TemporaryFolder folder;
    write_input(folder / "mine.npz", std::move(arrays));
    return complaint(folder / "mine.npz");
}

std::string complaint_about_bytes(const std::string& bytes)
{
    const TemporaryFolder folder;
    std::ofstream(folder / "mine.npz", std::ios::binary) << bytes;
    return complaint(folder / "mine.npz");
}

} // namespace

TEST_CASE("lessons run on numbers of other sizes", "[input]")
{
    CHECK(shape_of_step(taught("lesson_01_single_query", five_tokens()), "output") == Shape{7});
    CHECK(shape_of_step(taught("lesson_02_all_queries", five_tokens()), "output") == Shape{5, 7});
    CHECK(
        shape_of_step(taught("lesson_03_scale_and_softmax", {{"queries", numbers({3, 6})}, {"keys", numbers({5, 6})}}),
                      "d_k.6.weights") == Shape{3, 5});
    CHECK(shape_of_step(taught("lesson_04_scoring", {{"queries", numbers({1, 3})},
                                                     {"keys", numbers({2, 3})},
                                                     {"values", numbers({2, 5})},
                                                     {"query_weights", numbers({3, 2})},
                                                     {"key_weights", numbers({3, 2})},
                                                     {"score_weights", numbers({2})},
                                                     {"short_queries", numbers({1, 1})},
                                                     {"bilinear_weights", numbers({1, 3})},
                                                     {"short_query_weights", numbers({1, 2})}}),
                        "additive.hidden") == Shape{1, 2, 2});
}

TEST_CASE("lessons 5 to 11 run on numbers of other sizes", "[input]")
{
    CHECK(shape_of_step(taught("lesson_05_masking", {{"tokens", numbers({3, 5, 7})}, {"lengths", {{3}, {0, 5, 2}}}}),
                        "context") == Shape{3, 5, 7});
    CHECK(shape_of_step(taught("lesson_06_multi_head", {{"inputs", numbers({6, 8})},
                                                        {"query_weights", numbers({8, 6})},
                                                        {"key_weights", numbers({8, 6})},
                                                        {"value_weights", numbers({8, 10})},
                                                        {"output_weights", numbers({10, 3})}}),
                        "output") == Shape{6, 3});
    CHECK(shape_of_step(
              taught("lesson_07_self_and_cross",
                     {{"passage", numbers({4, 2})}, {"question", numbers({6, 2})}, {"answers", numbers({6, 5})}}),
              "sizes.context") == Shape{4, 5});
    for (const std::size_t d : {1, 2, 3, 6, 8})
        CHECK(shape_of_step(taught("lesson_08_positions", {{"tokens", numbers({3, d})}, {"table", numbers({4, d})}}),
                            "positions") == Shape{3, d});
    CHECK(shape_of_step(taught("lesson_09_feed_forward_and_norm", {{"x", numbers({4, 5})},
                                                                   {"hidden_weights", numbers({5, 3})},
                                                                   {"hidden_bias", numbers({3})},
                                                                   {"output_weights", numbers({3, 5})},
                                                                   {"output_bias", numbers({5})},
                                                                   {"gain", numbers({5})},
                                                                   {"bias", numbers({5})}}),
                        "norm.output") == Shape{4, 5});
    CHECK(shape_of_step(taught("lesson_11_encoder_stack", {{"tokens", numbers({1, 3, 512})}, {"lengths", {{1}, {2}}}}),
                        "output") == Shape{1, 3, 512});
}

TEST_CASE("lesson 14 runs on numbers of other sizes, also on one token of one feature", "[input][gradient][slow]")
{
    const auto maps = [](std::size_t n, std::size_t d, std::size_t d_k, std::size_t d_v) {
        return taught("lesson_14_gradients", {{"inputs", numbers({n, d})},
                                              {"query_weights", numbers({d, d_k})},
                                              {"key_weights", numbers({d, d_k})},
                                              {"value_weights", numbers({d, d_v})},
                                              {"target", numbers({n, d_v})}});
    };
    CHECK(shape_of_step(maps(5, 2, 4, 3), "grad.padded.values") == Shape{5, 3});
    CHECK(shape_of_step(maps(1, 1, 1, 1), "grad.inputs") == Shape{1, 1});
}

TEST_CASE("lesson 16 runs on numbers of other sizes, and says which it can rotate for two heads", "[input]")
{
    CHECK(shape_of_step(taught("lesson_16_rotary_and_alibi", {{"tokens", numbers({3, 8})}}),
                        "with_alibi.head.1.bias") == Shape{3, 3});
    const TemporaryFolder folder;
    write_input(folder / "mine.npz", {{"tokens", numbers({3, 6})}});
    const Ended ended = run({"lesson_16_rotary_and_alibi", "--input", folder / "mine.npz"});
    CHECK(ended.code == 2);
    CHECK_THAT(ended.errors, ContainsSubstring("tokens (3, 6)") && ContainsSubstring("multiple of 4"));
}

TEST_CASE("lesson 18 runs on numbers of other sizes, and wants no more queries than keys", "[input][fast]")
{
    const auto given = [](std::size_t k, std::size_t n, std::size_t m) {
        return std::vector<std::pair<std::string, Array>>{{"row", numbers({k})},
                                                          {"queries", numbers({n, 3})},
                                                          {"keys", numbers({m, 3})},
                                                          {"values", numbers({m, 5})}};
    };
    CHECK(shape_of_step(taught("lesson_18_flash_attention", given(7, 4, 11)), "back.grad_values") == Shape{11, 5});
    CHECK(shape_of_step(taught("lesson_18_flash_attention", given(1, 1, 1)), "context") == Shape{1, 5});
    const TemporaryFolder folder;
    write_input(folder / "mine.npz", given(6, 3, 2));
    const Ended ended = run({"lesson_18_flash_attention", "--input", folder / "mine.npz"});
    CHECK(ended.code == 2);
    CHECK_THAT(ended.errors, ContainsSubstring("at most as many as keys, found 3 and 2"));
}

TEST_CASE("lesson 21 runs on numbers of other sizes", "[input][recurrent]")
{
    for (const std::size_t n : {1, 2, 5})
        CHECK(shape_of_step(taught("lesson_21_recurrence", {{"x", numbers({n, 3})},
                                                            {"initial", numbers({4})},
                                                            {"reset_weights", numbers({7, 4})},
                                                            {"update_weights", numbers({7, 4})},
                                                            {"candidate_weights", numbers({7, 4})}}),
                            "reset_after.output") == Shape{n, 4});
}

TEST_CASE("lengths that are not whole, not from 0 to m, or not one per sentence are refused", "[input]")
{
    const auto refusal_of = [](const Array& lengths) {
        const TemporaryFolder folder;
        write_input(folder / "mine.npz", {{"tokens", numbers({2, 5, 3})}, {"lengths", lengths}});
        const Ended ended = run({"lesson_05_masking", "--input", folder / "mine.npz"});
        CHECK(ended.code == 2);
        return ended.errors;
    };
    CHECK_THAT(refusal_of({{2}, {6, 1}}), ContainsSubstring("lengths[0] is 6, expected 0 to m = 5"));
    CHECK_THAT(refusal_of({{2}, {2.5, 1}}), ContainsSubstring("lengths holds 2.5"));
    CHECK_THAT(refusal_of({{2}, {-1, 1}}), ContainsSubstring("lengths[0] is -1, expected 0 to m = 5"));
    CHECK_THAT(refusal_of({{3}, {1, 1, 1}}), ContainsSubstring("must agree in b"));
}

TEST_CASE("lesson 28 runs with other calls and each of its mistakes, and refuses calls that are none", "[input]")
{
    const auto given = [](Array ends, double mistake, double width, std::size_t n = 7) {
        const auto whole = [](Array array) {
            array.type = ElementType::integer;
            return array;
        };
        Array ids{{n}, std::vector<double>(n)};
        for (std::size_t i = 0; i < n; ++i)
            ids.values[i] = static_cast<double>((5 * i + 2) % 66);
        return std::vector<std::pair<std::string, Array>>{{"ids", whole(ids)},
                                                          {"ends", whole(std::move(ends))},
                                                          {"width", whole({{1}, {width}})},
                                                          {"kept", whole({{1}, {1}})},
                                                          {"mistake", whole({{1}, {mistake}})}};
    };
    for (double mistake = 0; mistake <= 8; ++mistake) {
        CAPTURE(mistake);
        for (const Array& ends : {Array{{1}, {7}}, Array{{3}, {2, 3, 7}}, Array{{7}, {1, 2, 3, 4, 5, 6, 7}}})
            CHECK(shape_of_step(taught("lesson_28_many_calls", given(ends, mistake, 3)), "calls.off") == Shape{7});
    }
    const auto refusal_of = [](const std::vector<std::pair<std::string, Array>>& arrays) {
        const TemporaryFolder folder;
        write_input(folder / "mine.npz", arrays);
        const Ended ended = run({"lesson_28_many_calls", "--input", folder / "mine.npz"});
        CHECK(ended.code == 2);
        return ended.errors;
    };
    CHECK_THAT(refusal_of(given({{2}, {2, 6}}, 0, 3)), ContainsSubstring("ends at 6, and there are 7 ids"));
    CHECK_THAT(refusal_of(given({{2}, {0, 7}}, 0, 3)), ContainsSubstring("growing numbers from 1 on, found 0"));
    CHECK_THAT(refusal_of(given({{3}, {4, 4, 7}}, 0, 3)), ContainsSubstring("found 4 after 4"));
    CHECK_THAT(refusal_of(given({{1}, {7}}, 9, 3)), ContainsSubstring("or 1 to 8, found 9"));
    CHECK_THAT(refusal_of(given({{1}, {7}}, 0, 0)), ContainsSubstring("a width of at least 1, found 0"));
    CHECK_THAT(refusal_of(given({{1}, {56}}, 0, 3, 56)), ContainsSubstring("expected at most 55"));
    auto two = given({{1}, {7}}, 0, 3);
    for (std::size_t i = 2; i < two.size(); ++i)
        two[i].second = {{2}, {1, 1}, ElementType::integer};
    CHECK_THAT(refusal_of(two), ContainsSubstring("holds 2 numbers, expected one"));
}

TEST_CASE("lessons 2 and 3 run on one token of one feature", "[input]")
{
    taught("lesson_02_all_queries", {{"inputs", numbers({1, 1})},
                                     {"query_weights", numbers({1, 1})},
                                     {"key_weights", numbers({1, 1})},
                                     {"value_weights", numbers({1, 1})}});
    taught("lesson_03_scale_and_softmax", {{"queries", numbers({1, 1})}, {"keys", numbers({1, 1})}});
}

TEST_CASE("a lesson's claims hold up to rounding where large numbers cancel", "[input]")
{
    taught("lesson_04_scoring", {{"queries", {{1, 1}, {1.0 / 3}}},
                                 {"keys", {{2, 1}, {0.1, 0.1000001}}},
                                 {"values", {{2, 1}, {1e10, -1e10}}},
                                 {"query_weights", numbers({1, 2})},
                                 {"key_weights", numbers({1, 2})},
                                 {"score_weights", numbers({2})},
                                 {"short_queries", numbers({1, 1})},
                                 {"bilinear_weights", numbers({1, 1})},
                                 {"short_query_weights", numbers({1, 2})}});
}

TEST_CASE("a lesson that reads its own trace as input computes the same steps", "[input]")
{
    const TemporaryFolder folder;
    write_input(folder / "mine.npz", five_tokens());
    REQUIRE(run({"lesson_02_all_queries", "--input", folder / "mine.npz", "--trace", folder / "a.npz"}).code == 0);
    REQUIRE(run({"lesson_02_all_queries", "--input", folder / "a.npz", "--trace", folder / "b.npz"}).code == 0);
    const std::vector<Step> first = read_trace(folder / "a.npz").steps, second = read_trace(folder / "b.npz").steps;
    REQUIRE(first.size() == second.size());
    for (std::size_t i = 0; i < first.size(); ++i)
        CHECK(identical(first[i].value, second[i].value));
}

TEST_CASE("a tensor that is missing, misshapen or not finite is named, with what was expected", "[input]")
{
    std::vector<std::pair<std::string, Array>> arrays = five_tokens();
    arrays.erase(arrays.begin() + 1);
    CHECK_THAT(complaint_about(arrays),
               ContainsSubstring("query_weights") && ContainsSubstring("found inputs, key_weights, value_weights"));

    arrays = five_tokens();
    arrays[0].second = numbers({5});
    CHECK_THAT(complaint_about(arrays), ContainsSubstring("inputs has the shape (5,), expected 2 axes"));

    arrays[0].second = numbers({5, 0});
    CHECK_THAT(complaint_about(arrays), ContainsSubstring("inputs has the shape (5, 0) and no numbers"));

    arrays = five_tokens();
    arrays[2].second.values[4] = NAN;
    CHECK_THAT(complaint_about(arrays), ContainsSubstring("key_weights[1, 1] is nan, expected finite numbers"));
    arrays[2].second.values[4] = -INFINITY;
    CHECK_THAT(complaint_about(arrays), ContainsSubstring("key_weights[1, 1] is -inf"));

    arrays = five_tokens();
    arrays[0].second = {{5, 2}, std::vector<double>(10, 1), ElementType::boolean};
    CHECK_THAT(complaint_about(arrays), ContainsSubstring("inputs holds booleans, expected numbers"));
}

TEST_CASE("tensors that don't fit together are both named, with their shapes", "[input]")
{
    std::vector<std::pair<std::string, Array>> arrays = five_tokens();
    arrays[1].second = numbers({4, 3});
    CHECK_THAT(complaint_about(arrays),
               ContainsSubstring("inputs (5, 2)") && ContainsSubstring("query_weights (4, 3)"));
    arrays = five_tokens();
    arrays[2].second = numbers({2, 4});
    CHECK_THAT(complaint_about(arrays),
               ContainsSubstring("query_weights (2, 3)") && ContainsSubstring("key_weights (2, 4)"));
}

TEST_CASE("an input that is no .npz, or a truncated one, is reported in one line", "[input][hostile]")
{
    CHECK_THAT(complaint("no/such/file.npz"), ContainsSubstring("no such file") || ContainsSubstring("No such file"));
    complaint_about_bytes("just some text\n");
    complaint_about_bytes("");

    const TemporaryFolder folder;
    complaint(folder.path());
    write_input(folder / "mine.npz", five_tokens());
    std::ostringstream whole;
    whole << std::ifstream(folder / "mine.npz", std::ios::binary).rdbuf();
    for (const std::size_t kept : {whole.str().size() - 1, whole.str().size() / 2, std::size_t{30}})
        complaint_about_bytes(whole.str().substr(0, kept));
}

TEST_CASE("a trace that can't be written is one line, and leaves nothing", "[input]")
{
    const TemporaryFolder folder;
    for (const std::filesystem::path& target :
         {folder / "missing/t.npz", folder.path(), std::filesystem::path("/proc/t.npz")}) {
        const Ended ended = run({"lesson_01_single_query", "--quiet", "--trace", target});
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK_THAT(ended.errors, ContainsSubstring(target.string()));
        CHECK(folder.count() == 0);
    }
}
