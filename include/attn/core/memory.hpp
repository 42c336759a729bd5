#pragma once

#include "attn/core/array.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace attn {

/// How many bytes this process can still take: what is left of its limits (RLIMIT_AS, RLIMIT_DATA), of its control group's,
/// and of the machine's memory (MemAvailable), whichever is least. What can't be read doesn't count.
std::size_t memory_left();

/// A number of bytes for people: "7.3 TiB".
std::string bytes_text(double bytes);

/// Refuses a tensor that does not fit into the memory that is left, before it is made. Where the system hands out more memory
/// than it has, asking for it would end the program later, without a word.
/// @param name          of the tensor: "scores"
/// @param element_size  in bytes
/// @param beside        bytes that will be needed beside each element, as for a mask
/// @throws Error such as "scores would be (1000000, 1000000), 7.3 TiB, and there is memory for 14.2 GiB: …"
void expect_memory(std::string_view name, const Shape& shape, std::size_t element_size = sizeof(double),
                   std::size_t beside = 0);

} // namespace attn
