#pragma once

namespace attn::files {

/// While one lives, a signal that would end the program is only noted, in whatever thread it comes; with the last one's life
/// the signal does what it would have done. So who writes a file clears up first, in ordinary code. A signal that the
/// program handles or ignores is left alone.
///
/// SIGXFSZ is dropped: write() then fails with EFBIG, and a file that must not grow is an error like a full disk.
class DeferredSignals {
public:
    DeferredSignals();
    DeferredSignals(const DeferredSignals&) = delete;
    DeferredSignals& operator=(const DeferredSignals&) = delete;
    ~DeferredSignals();

    /// True where the program is to end: what takes long had better stop.
    static bool is_interrupted();
};

} // namespace attn::files
