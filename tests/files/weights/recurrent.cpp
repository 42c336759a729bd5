// Weights of nn.GRU and nn.LSTM, under their names.

#include "reference/layers/examples.hpp"
#include "files/weights/examples.hpp"
#include "temporary_folder.hpp"

#include "attn/files/weights/recurrent.hpp"

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

RecurrentWeights weights_of(std::size_t gates, std::size_t layers = 1, bool is_both = false, bool is_biased = true)
{
    Numbers numbers(1);
    return random_recurrent(numbers, 3, 2, gates, layers, is_both, is_biased);
}

} // namespace

TEST_CASE("a state_dict of recurrent layers comes back as it was", "[weights][recurrent]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(3, 3);
    for (const std::size_t layers : {1, 2, 11})
        for (const bool is_both : {true, false})
            for (const bool is_biased : {true, false}) {
                CAPTURE(layers, is_both, is_biased);
                const RecurrentWeights three = weights_of(3, layers, is_both, is_biased);
                const RecurrentWeights back = gru_weights(state_dict(three), 3);
                CHECK(same(state_dict(back), state_dict(three)));
                CHECK(same_bits(gru(x, back).output, gru(x, three).output));
                const RecurrentWeights four = weights_of(4, layers, is_both, is_biased);
                CHECK(same_bits(lstm(x, lstm_weights(state_dict(four), 3)).output, lstm(x, four).output));
            }
}

TEST_CASE("state_dict has the names of nn.GRU and nn.LSTM", "[weights][recurrent]")
{
    CHECK(names_of(state_dict(weights_of(3))) == Names{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"});
    CHECK(names_of(state_dict(weights_of(4, 2, true, false))) ==
          Names{"weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse", "weight_ih_l1",
                "weight_hh_l1", "weight_ih_l1_reverse", "weight_hh_l1_reverse"});
    const NamedArrays arrays = state_dict(weights_of(4, 2, true));
    CHECK(arrays.at("weight_ih_l0").shape == Shape{8, 3});
    CHECK(arrays.at("weight_hh_l0").shape == Shape{8, 2});
    CHECK(arrays.at("weight_ih_l1").shape == Shape{8, 4});
    CHECK(arrays.at("weight_ih_l0").values[1] == weights_of(4, 2, true).layers[0].forward->input.weight(1, 0));
}

TEST_CASE("weights of recurrent layers that do not fit are listed at once", "[weights][recurrent]")
{
    NamedArrays arrays = state_dict(weights_of(3, 2, true));
    CHECK(complaint_of([&] { gru_weights(arrays, 5); }) ==
          "2 tensors do not fit a GRU with d_in 5:\n"
          "  weight_ih_l0 is (6, 3), expected (3*d_hidden, d_in)\n"
          "  weight_ih_l0_reverse is (6, 3), expected (3*d_hidden, d_in) = (6, 5)");
    arrays.erase("weight_hh_l1_reverse");
    arrays["weight_ih_l3"] = arrays["weight_ih_l0"];
    arrays["weight_hr_l0"] = arrays["weight_ih_l0"];
    CHECK(complaint_of([&] { gru_weights(arrays, 3); }) == "3 tensors do not fit a GRU with d_in 3:\n"
                                                           "  weight_hh_l1_reverse is missing\n"
                                                           "  weight_hr_l0 (6, 3) is not expected\n"
                                                           "  weight_ih_l3 (6, 3) is not expected");
    CHECK(complaint_of([&] { lstm_weights({}, 3); }) ==
          "2 tensors do not fit an LSTM with d_in 3:\n  weight_ih_l0 is missing\n  weight_hh_l0 is missing");
}

TEST_CASE("a GRU's weights are not an LSTM's, nor the other way round", "[weights][recurrent]")
{
    Numbers numbers(3);
    for (const std::size_t d_hidden : {1, 2, 3, 4, 12}) {
        CAPTURE(d_hidden);
        const NamedArrays three = state_dict(random_recurrent(numbers, 3, d_hidden, 3));
        const NamedArrays four = state_dict(random_recurrent(numbers, 3, d_hidden, 4));
        CHECK_THROWS_AS(lstm_weights(three, 3), WeightsError);
        CHECK_THROWS_AS(gru_weights(four, 3), WeightsError);
    }
}

TEST_CASE("recurrent weights that PyTorch's modules have no place for are not written", "[weights][recurrent]")
{
    const RecurrentCellWeights cell = *weights_of(3).layers[0].forward;
    CHECK_THROWS_WITH(state_dict(RecurrentWeights{}), ContainsSubstring("read forward in every layer"));
    CHECK_THROWS_WITH(state_dict(RecurrentWeights{{{{}, cell}}}), ContainsSubstring("read forward in every layer"));
    RecurrentWeights uneven = weights_of(3, 2);
    uneven.layers[1].forward->recurrent.bias.reset();
    CHECK_THROWS_WITH(state_dict(uneven), ContainsSubstring("the same d_hidden, directions and biases"));
    uneven = weights_of(3, 2);
    uneven.layers[1].backward = uneven.layers[1].forward;
    CHECK_THROWS_AS(state_dict(uneven), Error);
}
