#include "ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <map>

namespace sim {
namespace {

// Splits PTX into words and single punctuation marks, leaving out comments.
std::vector<std::string> tokens_of(const char *p) {
    std::vector<std::string> tokens;
    while (*p) {
        if (isspace(static_cast<unsigned char>(*p))) {
            p++;
        } else if (p[0] == '/' && p[1] == '/') {
            while (*p && *p != '\n') p++;
        } else if (p[0] == '/' && p[1] == '*') {
            const char *end = strstr(p + 2, "*/");
            p = end ? end + 2 : p + strlen(p);
        } else if (isalnum(static_cast<unsigned char>(*p)) || strchr("._$%", *p)) {
            const char *start = p;
            while (isalnum(static_cast<unsigned char>(*p)) || (*p && strchr("._$%", *p))) p++;
            tokens.emplace_back(start, p);
        } else {
            tokens.emplace_back(1, *p++);
        }
    }
    return tokens;
}

using Tokens = std::vector<std::string>;

const std::string &at(const Tokens &t, size_t i) {
    static const std::string none;
    return i < t.size() ? t[i] : none;
}

uint32_t type_bytes(const std::string &type) {
    if (type == ".b64" || type == ".u64" || type == ".s64" || type == ".f64") return 8;
    if (type == ".b32" || type == ".u32" || type == ".s32" || type == ".f32") return 4;
    if (type == ".b16" || type == ".u16" || type == ".s16" || type == ".f16") return 2;
    if (type == ".b8" || type == ".u8" || type == ".s8" || type == ".pred") return 1;
    return 0;
}

// A declaration ".align 16 .b8 name[1024]", read from after its state space; i ends behind it.
struct Declaration {
    std::string name;
    uint32_t bytes = 0;
};
Declaration declaration(const Tokens &t, size_t &i) {
    Declaration d;
    uint32_t element = 0;
    for (; i < t.size() && t[i][0] == '.'; i++) {
        if (t[i] == ".align") i++;
        else if (type_bytes(t[i])) element = type_bytes(t[i]);
    }
    d.name = at(t, i++);
    d.bytes = element;
    if (at(t, i) == "[") {
        d.bytes = element * static_cast<uint32_t>(strtoul(at(t, i + 1).c_str(), nullptr, 10));
        while (i < t.size() && t[i] != "]") i++;
        i++;
    }
    return d;
}

size_t skip_block(const Tokens &t, size_t open) {
    int depth = 0;
    for (size_t i = open; i < t.size(); i++) {
        if (t[i] == "{") depth++;
        if (t[i] == "}" && --depth == 0) return i + 1;
    }
    return 0;
}

int version_of(const std::string &text) {
    const size_t dot = text.find('.');
    if (dot == std::string::npos) return 0;
    return atoi(text.c_str()) * 10 + atoi(text.c_str() + dot + 1);
}

}  // namespace

std::string parse_ptx(const char *text, PtxModule &module) {
    const Tokens t = tokens_of(text);
    std::map<std::string, uint32_t> shared;  // static variables, by name
    for (size_t i = 0; i < t.size(); i++) {
        if (t[i] != ".shared") continue;
        size_t next = i + 1;
        const Declaration d = declaration(t, next);
        if (at(t, i - 1) != ".extern" && d.bytes > 0 && !d.name.empty()) shared[d.name] = d.bytes;
    }
    for (size_t i = 0; i < t.size(); i++) {
        if (t[i] == ".version") module.version = version_of(at(t, i + 1));
        if (t[i] == ".target" && at(t, i + 1).rfind("sm_", 0) == 0) module.target = atoi(at(t, i + 1).c_str() + 3);
        if (t[i] != ".entry") continue;
        PtxEntry entry;
        entry.name = at(t, ++i);
        if (at(t, ++i) == "(") {
            for (i++; i < t.size() && t[i] != ")";) {
                if (t[i] == ".param") {
                    i++;
                    entry.parameter_bytes.push_back(declaration(t, i).bytes);
                } else {
                    i++;
                }
            }
        }
        while (i < t.size() && t[i] != "{" && t[i] != ";") {
            if (t[i] == ".maxntid") {
                entry.max_threads = 1;
                do entry.max_threads *= static_cast<uint32_t>(strtoul(at(t, ++i).c_str(), nullptr, 10));
                while (at(t, ++i) == ",");
            } else {
                i++;
            }
        }
        const size_t end = at(t, i) == "{" ? skip_block(t, i) : 0;
        if (end == 0) return "entry " + entry.name + " has no body";
        std::map<std::string, uint32_t> used;
        for (; i < end; i++) {
            const auto found = shared.find(t[i]);
            if (found != shared.end()) used.insert(*found);
            if (t[i] == ".local") {
                size_t next = i + 1;
                entry.local_bytes += declaration(t, next).bytes;
            }
        }
        i--;
        for (const auto &variable : used) entry.static_shared_bytes += variable.second;
        module.entries.push_back(entry);
    }
    if (module.version == 0 || module.target == 0) return "no PTX: it has no .version and .target";
    if (module.entries.empty()) return "PTX without an entry";
    return "";
}

}  // namespace sim
