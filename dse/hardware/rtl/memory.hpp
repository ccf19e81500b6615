// The memory of the testbenches: ready in `num` of `den` cycles from each burst on, words `latency` cycles after their beat.

#include <cstdint>
#include <deque>
#include <vector>

static constexpr int WRITE_DELAY = 4;

template <typename Module> class Memory {
public:
  uint32_t num = 1, den = 1, latency = 1;
  std::vector<uint16_t> words;

  // A cycle up to its end: the memory's side of the port, then what the module asks for.
  void serve(Module &module) {
    pace += num;
    module.ready = pace >= den;
    if (module.ready) pace -= den;
    module.read_valid = !reads.empty() && reads.front().due == now;
    if (module.read_valid) {
      for (uint32_t i = 0; i < sizeof(Module::read_words) / 2; i++) {
        const uint32_t at = reads.front().address + i;  // that of padding may lie before the memory
        of(module.read_words)[i] = at < words.size() ? words[at] : 0xDEAD;
      }
      reads.pop_front();
    }
    module.eval();
    if (!writes.empty() && writes.front().due == now) {
      for (uint32_t i = 0; i < writes.front().count; i++) {
        const uint64_t at = uint64_t{writes.front().address} + i;
        if (at < words.size()) words[at] = of(module.write_words)[i];
      }
      writes.pop_front();
    }
    if (module.burst) pace = 0;  // the pace of the memory begins anew
    if (module.valid && module.ready) {
      (module.write ? writes : reads).push_back({now + (module.write ? WRITE_DELAY : latency), module.address, module.count});
    }
    now++;
  }

private:
  struct Beat {
    uint64_t due;
    uint32_t address, count;
  };
  std::deque<Beat> reads, writes;
  uint64_t now = 0;
  uint32_t pace = 0;

  // Words of a port, whatever its width.
  template <typename Port> static uint16_t *of(Port &port) { return reinterpret_cast<uint16_t *>(&port); }
};
