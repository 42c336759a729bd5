#include "attn/engines/mpi/packed_recording.hpp"

#include "attn/core/error.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace attn::mpi {
namespace {

/// Writes what visit() names, or reads the same in the same order.
class Archive {
public:
    Archive() = default;
    explicit Archive(const std::string& packed) : bytes(packed), reads_(true) {}

    /// A number, or several texts or numbers.
    template <class T>
    void operator()(T& given)
    {
        if constexpr (std::is_trivially_copyable_v<T>)
            raw(&given, sizeof given);
        else if constexpr (requires { given.resize(1); })
            several(given);
        else
            visit(given, *this);
    }
    static void expect(bool is_recording)
    {
        if (!is_recording)
            throw Error("mpi::unpack: these bytes are no packed recording");
    }
    bool is_at_end() const { return at_ == bytes.size(); }

    std::string bytes;

private:
    template <class Container>
    void several(Container& all)
    {
        using Entry = typename Container::value_type;
        constexpr bool are_numbers = std::is_trivially_copyable_v<Entry>;
        std::uint64_t size = all.size();
        (*this)(size);
        if (reads_) {
            expect(size <= (bytes.size() - at_) / (are_numbers ? sizeof(Entry) : sizeof size));
            all.resize(size);
        }
        if constexpr (are_numbers)
            raw(all.data(), size * sizeof(Entry));
        else
            for (Entry& one : all)
                (*this)(one);
    }
    void raw(void* number, std::size_t size)
    {
        if (!reads_)
            return void(bytes.append(static_cast<const char*>(number), size));
        expect(size <= bytes.size() - at_);
        if (size != 0)
            std::memcpy(number, bytes.data() + at_, size);
        at_ += size;
    }

    bool reads_ = false;
    std::size_t at_ = 0;
};

void visit(std::pair<std::string, std::string>& option, Archive& archive)
{
    archive(option.first);
    archive(option.second);
}

void visit(Step& step, Archive& archive)
{
    archive(step.path);
    archive(step.formula);
    archive(step.axes);
    archive(step.module);
    archive(step.options);
    archive(step.value.shape);
    archive(step.value.values);
    archive(step.value.type);
}

void visit(Alias& alias, Archive& archive)
{
    archive(alias.path);
    archive(alias.target);
}

void visit(Recording& recording, Archive& archive)
{
    archive(recording.steps);
    archive(recording.aliases);
}

} // namespace

std::string pack(const Recording& recording)
{
    Recording copy = recording;
    Archive archive;
    visit(copy, archive);
    return std::move(archive.bytes);
}

Recording unpack(const std::string& bytes)
{
    Recording recording;
    Archive archive(bytes);
    visit(recording, archive);
    Archive::expect(archive.is_at_end());
    return recording;
}

} // namespace attn::mpi
