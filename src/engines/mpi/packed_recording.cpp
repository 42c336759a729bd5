#include "attn/engines/mpi/packed_recording.hpp"

#include "attn/core/error.hpp"

#include <cstdint>
#include <cstring>

namespace attn::mpi {
namespace {

/// Writes what visit() names.
class Writer {
public:
    void operator()(std::string& text)
    {
        count(text.size());
        bytes.append(text);
    }
    void operator()(std::uint64_t& number) { raw(&number, sizeof number); }
    template <class T>
    void numbers(std::vector<T>& all)
    {
        count(all.size());
        raw(all.data(), all.size() * sizeof(T));
    }
    template <class T>
    void each(std::vector<T>& all)
    {
        count(all.size());
        for (T& one : all)
            visit(one, *this);
    }
    std::string bytes;

private:
    void count(std::uint64_t size) { (*this)(size); }
    void raw(const void* from, std::size_t size) { bytes.append(static_cast<const char*>(from), size); }
};

/// Reads the same in the same order.
class Reader {
public:
    explicit Reader(const std::string& bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
    void operator()(std::string& text)
    {
        text.resize(count(1));
        raw(text.data(), text.size());
    }
    void operator()(std::uint64_t& number) { raw(&number, sizeof number); }
    template <class T>
    void numbers(std::vector<T>& all)
    {
        all.resize(count(sizeof(T)));
        raw(all.data(), all.size() * sizeof(T));
    }
    template <class T>
    void each(std::vector<T>& all)
    {
        all.resize(count(sizeof(std::uint64_t)));
        for (T& one : all)
            visit(one, *this);
    }

    void expect_end() const { expect(at_ == end_); }

private:
    /// How many there are, of at least so many bytes each.
    std::uint64_t count(std::size_t bytes_each)
    {
        std::uint64_t size = 0;
        (*this)(size);
        expect(size <= static_cast<std::uint64_t>(end_ - at_) / bytes_each);
        return size;
    }
    static void expect(bool is_recording)
    {
        if (!is_recording)
            throw Error("mpi::unpack: these bytes are no packed recording");
    }
    void raw(void* to, std::size_t size)
    {
        expect(size <= static_cast<std::size_t>(end_ - at_));
        if (size != 0)
            std::memcpy(to, at_, size);
        at_ += size;
    }
    const char *at_, *end_;
};

template <class Visitor>
void visit(std::string& text, Visitor& visitor)
{
    visitor(text);
}

template <class Visitor>
void visit(std::pair<std::string, std::string>& option, Visitor& visitor)
{
    visitor(option.first);
    visitor(option.second);
}

template <class Visitor>
void visit(Step& step, Visitor& visitor)
{
    visitor(step.path);
    visitor(step.formula);
    visitor.each(step.axes);
    visitor(step.module);
    visitor.each(step.options);
    visitor.numbers(step.value.shape);
    visitor.numbers(step.value.values);
    auto type = static_cast<std::uint64_t>(step.value.type);
    visitor(type);
    step.value.type = static_cast<ElementType>(type);
}

template <class Visitor>
void visit(Alias& alias, Visitor& visitor)
{
    visitor(alias.path);
    visitor(alias.target);
}

template <class Visitor>
void visit(Recording& recording, Visitor& visitor)
{
    visitor.each(recording.steps);
    visitor.each(recording.aliases);
}

} // namespace

std::string pack(const Recording& recording)
{
    Recording copy = recording;
    Writer writer;
    visit(copy, writer);
    return std::move(writer.bytes);
}

Recording unpack(const std::string& bytes)
{
    Recording recording;
    Reader reader(bytes);
    visit(recording, reader);
    reader.expect_end();
    return recording;
}

} // namespace attn::mpi
