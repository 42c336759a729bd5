#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// A zip archive made byte by byte, so that it can lie wherever a test wants it to.
namespace zip_bytes {

struct Sizes {
    std::uint32_t compressed;
    std::uint32_t uncompressed;
};

/// One member as it lies in the file, and what its two headers say of it.
struct Member {
    std::string name;
    std::string stored;                ///< the bytes in the file
    std::string content = stored;      ///< what they stand for
    std::uint16_t method = 0;          ///< 0 stored, 8 deflated
    std::optional<Sizes> local = {};   ///< a lie in front of the member
    std::optional<Sizes> central = {}; ///< a lie in the directory
    std::uint32_t crc_flip = 0;        ///< bits to spoil the checksum with
};

inline std::uint32_t crc32(const std::string& bytes)
{
    std::uint32_t crc = 0xffffffff;
    for (const unsigned char byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
    }
    return ~crc;
}

inline void append(std::string& bytes, std::uint64_t number, int width)
{
    for (int byte = 0; byte < width; ++byte)
        bytes += static_cast<char>(static_cast<unsigned char>(number >> (8 * byte)));
}

/// What the local and the central header have in common.
inline std::string description(const Member& member, const std::optional<Sizes>& lie)
{
    const Sizes sizes = lie.value_or(
        Sizes{static_cast<std::uint32_t>(member.stored.size()), static_cast<std::uint32_t>(member.content.size())});
    std::string bytes;
    append(bytes, 20, 2); // version needed
    append(bytes, 0, 2);  // flags
    append(bytes, member.method, 2);
    append(bytes, 0x210000, 4); // 1980-01-01
    append(bytes, crc32(member.content) ^ member.crc_flip, 4);
    append(bytes, sizes.compressed, 4);
    append(bytes, sizes.uncompressed, 4);
    append(bytes, member.name.size(), 2);
    append(bytes, 0, 2); // no extra field
    return bytes;
}

/// The archive of these members.
inline std::string archive(const std::vector<Member>& members, const std::string& comment = "")
{
    std::string bytes;
    std::string directory;
    for (const Member& member : members) {
        directory += std::string("PK\1\2\x14\0", 6) + description(member, member.central);
        directory += std::string(10, '\0'); // no comment, first disk, no attributes
        append(directory, bytes.size(), 4);
        directory += member.name;
        bytes += "PK\3\4" + description(member, member.local) + member.name + member.stored;
    }
    const std::size_t start = bytes.size();
    bytes += directory;
    bytes += std::string("PK\5\6\0\0\0\0", 8);
    append(bytes, members.size(), 2);
    append(bytes, members.size(), 2);
    append(bytes, directory.size(), 4);
    append(bytes, start, 4);
    append(bytes, comment.size(), 2);
    return bytes + comment;
}

/// Deflates a text followed by very many equal bytes: 13 bits for 258 of them, the densest that the format has.
class Bomb {
public:
    Bomb(const std::string& text, char filler, std::size_t repeats)
    {
        put(1, 1); // the last block
        put(1, 2); // with the fixed code
        for (const char c : text + filler)
            literal(static_cast<unsigned char>(c));
        for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
            code(0b11000101, 8); // 258 bytes
            code(0, 5);          // from one byte back
        }
        code(0, 7); // the end
        put(0, 7);
    }

    const std::string& bytes() const { return bytes_; }

private:
    void literal(unsigned value) { value < 144 ? code(0x30 + value, 8) : code(0x190 + value - 144, 9); }

    // Codes go in with their first bit first, numbers with their last.
    void code(unsigned bits, int width)
    {
        while (width-- > 0)
            put((bits >> width) & 1, 1);
    }

    void put(unsigned bits, int width)
    {
        for (; width-- > 0; bits >>= 1) {
            current_ |= (bits & 1) << filled_;
            if (++filled_ == 8) {
                bytes_ += static_cast<char>(static_cast<unsigned char>(current_));
                current_ = 0;
                filled_ = 0;
            }
        }
    }

    std::string bytes_;
    unsigned current_ = 0;
    int filled_ = 0;
};

} // namespace zip_bytes
