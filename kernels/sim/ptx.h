// What the simulator reads of a PTX text: enough to hold its entries against the kernels compiled into this library.
#pragma once

#include <stdint.h>

#include <string>
#include <vector>

namespace sim {

struct PtxEntry {
    std::string name;
    std::vector<uint32_t> parameter_bytes;
    uint32_t max_threads = 1024;  // .maxntid
    uint32_t static_shared_bytes = 0;
    uint32_t local_bytes = 0;
};

struct PtxModule {
    int version = 0;  // major * 10 + minor
    int target = 0;   // 80 for sm_80
    std::vector<PtxEntry> entries;
};

// parse_ptx returns an empty string, or what is wrong with the text.
std::string parse_ptx(const char *text, PtxModule &module);

}  // namespace sim
