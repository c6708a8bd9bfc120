#include "race.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace sim {

struct RaceDetector::Row {
    uint32_t references;
    std::vector<uint32_t> clocks;  // by thread
};

RaceDetector::RaceDetector(uint32_t shared_bytes) : words_((shared_bytes + 3) / 4) {
    void *p = mmap(nullptr, sizeof(Cell) * words_ * cells_per_word, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    cells_ = static_cast<Cell *>(p);
}

RaceDetector::~RaceDetector() {
    munmap(cells_, sizeof(Cell) * words_ * cells_per_word);
    start_block(0);
    for (Row *row : spare_) delete row;
}

RaceDetector::Row *RaceDetector::take_row() {
    if (spare_.empty()) return new Row{0, {}};
    Row *row = spare_.back();
    spare_.pop_back();
    row->references = 0;
    return row;
}

void RaceDetector::drop(Row *row) {
    if (--row->references == 0) spare_.push_back(row);
}

void RaceDetector::start_block(unsigned threads) {
    for (Row *row : row_) drop(row);
    for (uint32_t c : clock_) epoch_ = std::max(epoch_, c);
    if (epoch_ > 1u << 31) {  // long before the clocks wrap
        memset(cells_, 0, sizeof(Cell) * words_ * cells_per_word);
        epoch_ = 0;
    }
    threads_ = threads;
    clock_.assign(threads, epoch_ + 1);
    row_.clear();
    if (threads == 0) return;
    Row *row = take_row();
    row->clocks.assign(threads, epoch_);
    row->references = threads;
    row_.assign(threads, row);
}

RaceDetector::Conflict RaceDetector::access(unsigned thread, uint32_t at, uint32_t bytes, Access kind) {
    if (bytes == 4 && at % 4 == 0) return access_word(thread, at / 4, 0xf, kind);
    const uint32_t end = at + bytes;
    for (uint32_t word = at / 4; word * 4 < end; word++) {
        uint8_t mask = 0xf;
        if (word * 4 < at) mask &= static_cast<uint8_t>(0xf << (at & 3));
        if (word * 4 + 4 > end) mask &= static_cast<uint8_t>(0xf >> (word * 4 + 4 - end));
        const Conflict c = access_word(thread, word, mask, kind);
        if (c.found) return c;
    }
    return {};
}

RaceDetector::Conflict RaceDetector::access_word(unsigned thread, uint32_t word, uint8_t bytes, Access kind) {
    Cell *cells = cells_ + static_cast<size_t>(word) * cells_per_word;
    const std::vector<uint32_t> &seen = row_[thread]->clocks;
    const Cell mine = {clock_[thread], static_cast<uint16_t>(thread), bytes, static_cast<uint8_t>(kind)};
    // The same access again, with no barrier since the first: whatever came in between was held against the first.
    uint64_t key;
    memcpy(&key, &mine, sizeof key);
    for (int i = 0; i < cells_per_word; i++) {
        uint64_t cell;
        memcpy(&cell, &cells[i], sizeof cell);
        if (cell == key) return {};
    }
    Cell *place = nullptr;
    for (int i = 0; i < cells_per_word; i++) {
        Cell &c = cells[i];
        if (c.clock <= epoch_) {  // empty, or of an earlier block
            if (!place) place = &c;
            continue;
        }
        if (c.thread == thread) {
            // A newer access of the same kind to the same bytes stands for the older one.
            if (c.bytes == bytes && c.access == mine.access) place = &c;
            continue;
        }
        const bool ordered = c.clock <= seen[c.thread];
        if (ordered) {
            if (!place && kind == Access::write && (c.bytes & ~bytes) == 0) place = &c;
            continue;
        }
        if ((c.bytes & bytes) == 0) continue;
        const Access other = static_cast<Access>(c.access);
        if (kind == Access::read && other == Access::read) continue;
        if (kind == Access::atomic && other == Access::atomic) continue;
        return {true, c.thread, other};
    }
    if (!place) place = &cells[victim_++ % cells_per_word];
    *place = mine;
    return {};
}

void RaceDetector::join(const std::vector<uint16_t> &threads) {
    Row *joined = take_row();
    joined->clocks.assign(threads_, epoch_);
    const Row *last = nullptr;
    for (uint16_t t : threads) {
        const Row *row = row_[t];
        if (row == last) continue;  // neighbours usually share a row
        last = row;
        for (unsigned i = 0; i < threads_; i++) joined->clocks[i] = std::max(joined->clocks[i], row->clocks[i]);
    }
    for (uint16_t t : threads) {
        joined->clocks[t] = clock_[t]++;
        drop(row_[t]);
        row_[t] = joined;
    }
    joined->references = static_cast<uint32_t>(threads.size());
}

void RaceDetector::release(Token &token, unsigned thread) {
    token.resize(threads_, epoch_);
    const std::vector<uint32_t> &seen = row_[thread]->clocks;
    for (unsigned i = 0; i < threads_; i++) token[i] = std::max(token[i], seen[i]);
    token[thread] = clock_[thread]++;
}

void RaceDetector::acquire(const Token &token, unsigned thread) {
    if (token.empty()) return;
    Row *row = take_row();
    row->clocks = row_[thread]->clocks;
    for (unsigned i = 0; i < threads_; i++) row->clocks[i] = std::max(row->clocks[i], token[i]);
    row->references = 1;
    drop(row_[thread]);
    row_[thread] = row;
}

}  // namespace sim
