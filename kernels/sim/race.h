// The race detector for shared memory: vector clocks over the threads of one block.
//
// Each thread counts its own clock; its Row says, for every other thread, up to which clock that thread's accesses
// happened before this one's. Barriers join rows: all who leave one share the same new Row. An access races with an earlier one by another thread
// that its row does not cover, if either writes and not both are atomic. As in ThreadSanitizer the last four accesses
// of each word are remembered, so a race may go unseen in one order of threads and show in the next.
#pragma once

#include <stdint.h>

#include <vector>

namespace sim {

class RaceDetector {
public:
    struct Row;  // shared by all threads that left a barrier together

    enum class Access { read, write, atomic };
    struct Conflict {
        bool found;
        uint16_t thread;
        Access access;
    };

    explicit RaceDetector(uint32_t shared_bytes);
    ~RaceDetector();
    RaceDetector(const RaceDetector &) = delete;

    // start_block forgets everything: no access from before it can conflict.
    void start_block(unsigned threads);
    // access records one by `thread` at shared-memory offset `at`, and reports an earlier one it races with.
    Conflict access(unsigned thread, uint32_t at, uint32_t bytes, Access kind);
    // join is a barrier among `threads`: what any of them did happens before what all of them do next.
    void join(const std::vector<uint16_t> &threads);
    // release adds what the thread has done and seen to a token; acquire makes a token's content happen before what the
    // thread does next. A flag, or a barrier at which some only arrive, is a token.
    using Token = std::vector<uint32_t>;
    void release(Token &token, unsigned thread);
    void acquire(const Token &token, unsigned thread);

private:
    struct Cell {
        uint32_t clock;  // 0 is empty
        uint16_t thread;
        uint8_t bytes;   // bit i: byte i of the word
        uint8_t access;
    };
    static_assert(sizeof(Cell) == sizeof(uint64_t));
    static constexpr int cells_per_word = 4;

    unsigned threads_ = 0;
    uint32_t epoch_ = 0;  // clocks up to here belong to earlier blocks
    uint32_t words_;
    Cell *cells_;
    uint32_t victim_ = 0;
    std::vector<uint32_t> clock_;
    std::vector<Row *> row_;
    std::vector<Row *> spare_;

    Row *take_row();
    void drop(Row *row);
    Conflict access_word(unsigned thread, uint32_t word, uint8_t bytes, Access kind);
};

}  // namespace sim
