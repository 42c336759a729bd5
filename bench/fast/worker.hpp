#pragma once

#include "attn/reference/layers/linear.hpp"
#include "attn/reference/ops/random.hpp"

#include <functional>
#include <istream>
#include <string>
#include <vector>

// What the worker of bench/fast/fast.py can time. Each function reads its sizes from the rest of the line, does the
// work once, and returns the seconds that it took.
namespace attn::bench {

double attention(const std::string& contender, std::istream& sizes); ///< PASS N CAUSAL: forward 2048 1
double encoder(const std::string& contender, std::istream& sizes);   ///< B N: 8 128
double story(const std::string& contender, std::istream& sizes);     ///< SHAPE N: 15M 128; of one token
double sgemm();                                                      ///< two matrices of 2048 by 2048 numbers
double stream();                                                     ///< reads 256 MiB

double seconds(const std::function<void()>& work);
std::vector<float> random_floats(std::size_t count, unsigned seed);
/// Numbers about as large as those of a trained map: products keep their size.
LinearWeights random_map(RandomNumbers& numbers, std::size_t d_in, std::size_t d_out, bool has_bias);

} // namespace attn::bench
