#include "safetensors_header.hpp"

#include "attn/core/error.hpp"
#include "attn/core/utf8.hpp"
#include "attn/files/json_file.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace attn::files {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view metadata_name = "__metadata__";

std::string in_quotes(std::string_view text)
{
    constexpr std::size_t longest = 200;
    return '"' + std::string(text.substr(0, longest)) + (text.size() > longest ? "...\"" : "\"");
}

std::string known_types()
{
    std::string names;
    for (const ElementFormat& format : element_formats())
        names += (names.empty() ? "" : ", ") + std::string(format.safetensors);
    return names;
}

const ElementFormat* format_of_dtype(std::string_view dtype)
{
    const auto formats = element_formats();
    const auto format = std::ranges::find(formats, dtype, &ElementFormat::safetensors);
    if (format == formats.end())
        throw Error("has the dtype " + in_quotes(dtype) + ", expected one of " + known_types());
    return &*format;
}

/// What the three keys of a tensor say.
struct Description {
    std::optional<std::string> dtype;
    std::optional<Shape> shape;
    std::optional<std::vector<std::size_t>> data_offsets;
};

StoredTensor tensor_of(const Description& description)
{
    for (const auto& [key, given] : {std::pair{"dtype", description.dtype.has_value()},
                                     {"shape", description.shape.has_value()},
                                     {"data_offsets", description.data_offsets.has_value()}})
        if (!given)
            throw Error("has no " + in_quotes(key) + ", expected dtype, shape and data_offsets");
    if (description.data_offsets->size() != 2)
        throw Error("has " + std::to_string(description.data_offsets->size()) +
                    " data_offsets, expected begin and end");

    const StoredTensor tensor{format_of_dtype(*description.dtype), *description.shape,
                              description.data_offsets->front(), description.data_offsets->back()};
    if (tensor.end < tensor.begin)
        throw Error("ends at byte " + std::to_string(tensor.end) + " of the data, before it begins at byte " +
                    std::to_string(tensor.begin));
    const std::size_t expected = checked_count(tensor.shape) * tensor.format->bytes;
    if (tensor.end - tensor.begin != expected)
        throw Error("has " + std::to_string(tensor.end - tensor.begin) + " bytes of data, expected " +
                    std::to_string(expected) + " for " + *description.dtype + " of shape " + to_string(tensor.shape));
    return tensor;
}

/// Follows the JSON as it is parsed, so that what no header holds is refused where it begins and never built: nesting,
/// and a key that comes twice, of which a finished tree keeps but the last.
class HeaderReader final : public nlohmann::json_sax<OrderedJson> {
public:
    explicit HeaderReader(std::string_view text) : text_(text) {}

    StoredTensors take() { return std::move(tensors_); }

    bool null() override { unexpected("null"); }
    bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
    bool number_integer(number_integer_t value) override { unexpected(std::to_string(value)); }
    bool number_float(number_float_t, const string_t& text) override { unexpected(text.substr(0, 40)); }
    bool binary(binary_t&) override { unexpected("bytes"); }

    bool number_unsigned(number_unsigned_t value) override
    {
        if (place_ == Place::shape && description_.shape->size() <= most_axes)
            description_.shape->push_back(value);
        else if (place_ == Place::data_offsets && description_.data_offsets->size() < 2)
            description_.data_offsets->push_back(value);
        else
            unexpected(std::to_string(value));
        return true;
    }

    bool string(string_t& text) override
    {
        if (place_ == Place::tensor && key_ == "dtype")
            description_.dtype = text;
        else if (place_ != Place::metadata)
            unexpected("the string " + in_quotes(text));
        return true;
    }

    bool start_object(std::size_t) override
    {
        if (place_ == Place::outside)
            place_ = Place::header;
        else if (place_ == Place::header)
            place_ = name_ == metadata_name ? Place::metadata : Place::tensor;
        else
            unexpected("an object");
        return true;
    }

    bool end_object() override
    {
        if (place_ == Place::tensor)
            tensors_[name_] = finished_tensor();
        place_ = Place::header;
        return true;
    }

    bool start_array(std::size_t) override
    {
        if (place_ == Place::tensor && key_ == "shape") {
            place_ = Place::shape;
            description_.shape.emplace();
        } else if (place_ == Place::tensor && key_ == "data_offsets") {
            place_ = Place::data_offsets;
            description_.data_offsets.emplace();
        } else {
            unexpected("a list");
        }
        return true;
    }

    bool end_array() override
    {
        place_ = Place::tensor;
        return true;
    }

    bool key(string_t& key) override
    {
        if (place_ == Place::header) {
            name_ = key;
            keys_.clear();
            if (!names_.insert(key).second)
                throw Error("has " + subject() + " twice in its header");
            return true;
        }
        key_ = key;
        if (place_ == Place::tensor && key != "dtype" && key != "shape" && key != "data_offsets")
            throw Error(subject() + " has the unknown key " + in_quotes(key) +
                        ", expected dtype, shape and data_offsets");
        if (!keys_.insert(key).second)
            throw Error(subject() + " has the key " + in_quotes(key) + " twice");
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const OrderedJson::exception& error) override
    {
        throw Error("has a header that " + json_fault(text_, position, error));
    }

private:
    enum class Place { outside, header, metadata, tensor, shape, data_offsets };

    std::string subject() const { return name_ == metadata_name ? in_quotes(name_) : tensor_called(name_); }

    StoredTensor finished_tensor()
    {
        try {
            return tensor_of(std::exchange(description_, {}));
        } catch (const Error& error) {
            throw Error(subject() + ' ' + error.what());
        }
    }

    [[noreturn]] void unexpected(const std::string& found) const
    {
        switch (place_) {
        case Place::outside:
            throw Error("has " + found + " as its header, expected a JSON object");
        case Place::header:
            throw Error(subject() + " is " + found + ", expected an object" +
                        (name_ == metadata_name ? " of strings" : " with dtype, shape and data_offsets"));
        case Place::metadata:
            throw Error(subject() + " has " + found + " as its " + in_quotes(key_) + ", expected a string");
        case Place::tensor:
            throw Error(subject() + " has " + found + " as its " + key_ + ", expected " +
                        (key_ == "dtype" ? "a string" : "a list of whole numbers"));
        case Place::shape:
            throw Error(subject() + " has " + found + " in its shape, expected at most " + std::to_string(most_axes) +
                        " whole numbers, none below 0");
        case Place::data_offsets:
            throw Error(subject() + " has " + found +
                        " in its data_offsets, expected two whole numbers: begin and end");
        }
        throw std::logic_error("HeaderReader: a place without a message");
    }

    std::string_view text_; // of the whole header
    Place place_ = Place::outside;
    std::string name_;            // of the tensor
    std::string key_;             // in it
    std::set<std::string> names_; // so far
    std::set<std::string> keys_;  // so far, in this tensor or the metadata
    Description description_;
    StoredTensors tensors_;
};

} // namespace

std::string tensor_called(std::string_view name) { return "tensor " + in_quotes(name); }

StoredTensors parse_safetensors_header(std::string_view text)
{
    if (text.empty() || text.front() != '{')
        throw Error("has a header that does not begin with {, as the JSON object in a .safetensors file does");
    // The parser would take a zero byte for the end, and what follows would never be read.
    if (text.find('\0') != std::string_view::npos)
        throw Error("has a header that is no JSON: it contains a zero byte");
    HeaderReader reader(text);
    OrderedJson::sax_parse(text, &reader);
    return reader.take();
}

std::string to_text(const StoredTensors& tensors)
{
    std::string text;
    for (const auto& [name, tensor] : tensors) {
        if (name == metadata_name)
            throw Error(tensor_called(name) + " must have another name: the format reserves this one");
        if (!is_utf8(name))
            throw Error(tensor_called(name) + " has a name that is not UTF-8");
        OrderedJson json = OrderedJson::object();
        json["dtype"] = tensor.format->safetensors;
        json["shape"] = tensor.shape;
        json["data_offsets"] = {tensor.begin, tensor.end};
        text += (text.empty() ? "" : ",") + OrderedJson(name).dump() + ':' + json.dump();
    }
    return '{' + text + '}';
}

} // namespace attn::files
